// durable.hpp: work on a store during which something else is measured, and the other way round.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <future>
#include <string>

#include "bench/names.hpp"
#include "bench/stored/ours.hpp"
#include "bench/stored/sqlite.hpp"
#include "tenure/claim.hpp"
#include "tenure/store.hpp"

namespace tenure::bench::stored {

// Nanoseconds of a lock and its release, `count` times; before each, if requested, a put of another
// key by the same process, which is not timed.
[[nodiscard]] inline double pair_ns(const Space& space, Store* puts, std::size_t count) {
  std::chrono::steady_clock::duration time{};
  for (std::size_t i = 0; i < count; ++i) {
    if (puts != nullptr) {
      Txn put;
      put.writes.push_back(Write::put("beside/" + std::to_string(i % 100), std::string(150, 'x')));
      static_cast<void>(puts->apply(put));
    }
    const auto start = std::chrono::steady_clock::now();
    lock_and_release(space, book.exclusive());
    time += std::chrono::steady_clock::now() - start;
  }
  return static_cast<double>(std::chrono::nanoseconds{time}.count()) / static_cast<double>(count);
}

// Durable puts of single rows, so many under way at a time: each callback starts the next.
class Durable {
 public:
  Durable(Store& store, std::size_t depth) : store_(store), depth_(depth) {}

  void run(std::uint64_t operations) {
    left_ = static_cast<std::int64_t>(operations);
    under_way_ = 0;
    finished_ = {};
    const std::size_t first = std::min<std::size_t>(depth_, operations);
    under_way_ = first;
    left_ -= static_cast<std::int64_t>(first);
    for (std::size_t i = 0; i < first; ++i) begin();
    finished_.get_future().get();
  }

 private:
  void begin() {
    Txn put;
    put.durability = Durability::full;
    put.writes.push_back(Write::put("row/" + std::to_string(next_++ % durable_rows), value_));
    store_.apply_then(std::move(put),
                      [this](const Outcome& /*outcome*/, const std::exception_ptr& error) {
                        if (error) std::terminate();
                        if (left_.fetch_sub(1) > 0) {
                          begin();
                        } else if (under_way_.fetch_sub(1) == 1) {
                          finished_.set_value();
                        }
                      });
  }

  Store& store_;
  const std::size_t depth_;
  const std::string value_ = std::string(150, 'x');
  std::atomic<std::uint64_t> next_{0};
  std::atomic<std::int64_t> left_{0};
  std::atomic<std::size_t> under_way_{0};
  std::promise<void> finished_;
};

}  // namespace tenure::bench::stored
