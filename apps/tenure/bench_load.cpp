#include "bench_load.hpp"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <exception>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "exit_status.hpp"
#include "space/sharded/shard_list.hpp"
#include "tenure/space.hpp"
#include "terminal.hpp"

namespace tenure::cli {
namespace {

using Clock = std::chrono::steady_clock;  // CLOCK_MONOTONIC: the same in all processes.

std::int64_t stamp_of(Clock::time_point time) {
  return std::chrono::nanoseconds{time.time_since_epoch()}.count();
}

Mode mode_of(const BenchOptions& options) {
  switch (options.mode) {
    case BenchOptions::Kind::shared: return Mode::shared();
    case BenchOptions::Kind::permits: return Mode::permits(options.permits);
    case BenchOptions::Kind::exclusive: break;
  }
  return Mode::exclusive();
}

// In a sharded space each key is a root, so that all shards have some.
Path path_of(std::size_t key, const BenchOptions& options) {
  if (!sharded::is_sharded(options.space)) return Path::of("tenure-bench", key);
  return Path::of("tenure-bench-" + std::to_string(key));
}

void client(const BenchOptions& options, const Space& space, const BenchMemory& memory,
            std::size_t number) {
  ClientFigures& figures = memory.clients[number];
  std::minstd_rand random{static_cast<std::uint32_t>(number + 1)};
  const std::int64_t end = memory.end->load();
  for (;;) {
    const std::size_t key = random() % options.keys;
    const Claim claim{path_of(key, options), mode_of(options)};
    const Clock::time_point asked = Clock::now();
    if (stamp_of(asked) >= end) return;
    Hold hold = space.lock(claim);
    const Clock::time_point had = Clock::now();
    figures.lock.add(had - asked);
    const std::int64_t released = memory.released[key].load(std::memory_order_relaxed);
    if (released > stamp_of(asked)) {
      figures.hand_off.add(std::chrono::nanoseconds{stamp_of(had) - released});
    }
    if (options.hold.count() > 0) std::this_thread::sleep_for(options.hold);
    memory.released[key].store(stamp_of(Clock::now()), std::memory_order_relaxed);
    hold.release();
    ++figures.operations;
  }
}

}  // namespace

std::size_t Histogram::bucket_of(std::uint64_t time) noexcept {
  if (time < (1U << fine_bits)) return time;
  const auto shift = static_cast<unsigned>(std::bit_width(time)) - fine_bits - 1;
  return (std::size_t{shift + 1} << fine_bits) + ((time >> shift) & ((1U << fine_bits) - 1));
}

std::uint64_t Histogram::middle_of(std::size_t bucket) noexcept {
  const std::size_t shift = bucket >> fine_bits;
  const std::uint64_t fine = bucket & ((1U << fine_bits) - 1);
  if (shift == 0) return fine;
  return (((1U << fine_bits) + fine) << (shift - 1)) + ((std::uint64_t{1} << (shift - 1)) >> 1U);
}

void Histogram::add(std::chrono::nanoseconds time) noexcept {
  const auto count = static_cast<std::uint64_t>(std::max<std::int64_t>(time.count(), 0));
  ++buckets_[bucket_of(count)];
  ++count_;
  most_ = std::max(most_, count);
}

void Histogram::merge(const Histogram& other) noexcept {
  for (std::size_t i = 0; i < buckets_.size(); ++i) buckets_[i] += other.buckets_[i];
  count_ += other.count_;
  most_ = std::max(most_, other.most_);
}

std::chrono::nanoseconds Histogram::percentile(double part) const noexcept {
  const auto wanted = static_cast<std::uint64_t>(part * static_cast<double>(count_));
  std::uint64_t seen = 0;
  for (std::size_t i = 0; i < buckets_.size(); ++i) {
    seen += buckets_[i];
    if (seen > wanted) {
      return std::chrono::nanoseconds{std::min(middle_of(i), most_)};
    }
  }
  return most();
}

int bench_process(const BenchOptions& options, const std::string& url, const BenchMemory& memory,
                  std::size_t first, std::size_t last, int ready, int go) {
  try {
    const Space space = open(url);
    std::exception_ptr failed;
    std::atomic<bool> has_failed = false;
    char byte = 0;
    if (::write(ready, &byte, 1) != 1 || ::read(go, &byte, 1) != 0) return exit_failure;
    std::vector<std::jthread> threads;
    for (std::size_t number = first; number < last; ++number) {
      threads.emplace_back([&, number] {
        try {
          client(options, space, memory, number);
        } catch (...) {
          if (!has_failed.exchange(true)) failed = std::current_exception();
        }
      });
    }
    threads.clear();
    if (failed != nullptr) std::rethrow_exception(failed);
    return exit_ok;
  } catch (const std::exception& error) {
    fmt::print(stderr, "tenure: {}\n", printable(error.what()));
    return exit_failure;
  }
}

}  // namespace tenure::cli
