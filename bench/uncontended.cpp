// Rivals: std::unordered_map<std::string, std::mutex> behind a std::mutex, and the accessor of
// oneTBB's concurrent_hash_map. All keys are built before and stay in the maps. (A oneTBB map that
// removes keys, as a space does, inserts and erases.)
#include <oneapi/tbb/concurrent_hash_map.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "bench/allocations.hpp"
#include "bench/names.hpp"
#include "bench/program.hpp"
#include "bench/questions.hpp"
#include "bench/rivals.hpp"
#include "tenure/claim.hpp"
#include "tenure/hold.hpp"
#include "tenure/space.hpp"

namespace tenure::bench {
namespace {

constexpr double cheap_locked_instruction = 5;  // Nanoseconds.

using TbbMap = tbb::concurrent_hash_map<std::string, int>;

template <class Lock>
Race::Work repeat(Lock lock) {
  return [lock](std::uint64_t operations) {
    for (std::uint64_t i = 0; i < operations; ++i) lock();
  };
}

Race::Work lock_claim(const Space& space, const Claim& claim) {
  return repeat([&space, &claim] { const Hold hold = space.lock(claim); });
}

Race::Work lock_in_map(MapOfMutexes& map, const std::string& key) {
  return repeat([&map, &key] { const std::scoped_lock lock{map.at(key)}; });
}

// What a locked instruction takes decides what oneTBB's accessor takes, which has several, and
// hardly matters to a biased shard.
double locked_instruction() {
  std::atomic<std::uint64_t> word = 0;
  Samples samples;
  for (int round = 0; round < 50; ++round) {
    constexpr int count = 2'000;
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < count; ++i) word.fetch_add(1, std::memory_order_relaxed);
    const std::chrono::duration<double, std::nano> time = std::chrono::steady_clock::now() - start;
    samples.push_back(time.count() / count);
  }
  return spread_of(samples).median;
}

double allocations_of(const Race::Work& work) {
  work(1'000);
  const std::uint64_t before = allocations();
  work(100'000);
  return static_cast<double>(allocations() - before);
}

}  // namespace

void ask_uncontended(Report& report) {
  pin_to_core(0);
  const Space space = open("local:");
  const Space below = open("local:");  // A parent whose children were in use costs more.
  const Space foreign =
      open("local:");  // Its shards are biased to another thread, not to this one.
  const Claim flat = book.exclusive();
  const Claim child = book(3);
  const Claim reader = book.shared();
  const std::string key = "book";
  MapOfMutexes map;
  TbbMap tbb_map;
  TbbMap tbb_erasing;
  std::mutex bare;
  const volatile std::uint32_t number = 3;  // Not known when the path is compiled.

  std::thread{lock_claim(foreign, flat), 10'000}.join();

  Race race{report.effort()};
  const auto ours = race.add(lock_claim(space, flat));
  const auto guest = race.add(lock_claim(foreign, flat));
  const auto mutexes = race.add(lock_in_map(map, key));
  const auto tbb = race.add(repeat([&] {
    TbbMap::accessor accessor;
    tbb_map.insert(accessor, key);
  }));
  const auto tbb_erase = race.add(repeat([&] {
    TbbMap::accessor accessor;
    tbb_erasing.insert(accessor, key);
    tbb_erasing.erase(accessor);
  }));
  const auto shared = race.add(lock_claim(space, reader));
  const auto tried =
      race.add(repeat([&] { const std::optional<Hold> hold = space.try_lock(flat); }));
  const auto second = race.add(lock_claim(below, child));
  const auto built = race.add(repeat([&] { const Hold hold = below.lock(book(number)); }));
  const auto map_built = race.add(
      repeat([&] { const std::scoped_lock lock{map.at("book/" + std::to_string(number))}; }));
  const auto mutex = race.add(repeat([&] { const std::scoped_lock lock{bare}; }));
  race.run();

  const Report::Side rival{.name = "map of mutexes", .samples = race[mutexes]};
  report.compare("flat key", {"", race[ours]}, rival, at_most(1.0));
  const double locked = locked_instruction();
  report.figure("a locked instruction", locked, "ns");
  report.compare("flat key", {"", race[ours]}, {"oneTBB accessor", race[tbb]},
                 at_most(locked < cheap_locked_instruction ? 1.0 : 0.6));
  report.compare("flat key", {"", race[ours]}, {"oneTBB insert + erase", race[tbb_erase]});
  report.compare("flat key, shard of two threads", {"", race[guest]}, rival);
  report.compare("flat key, shared", {"", race[shared]}, rival);
  report.compare("flat key, try_lock", {"", race[tried]}, {"lock", race[ours]}, at_most(1.1));
  report.compare("book(3)", {"", race[second]}, rival);
  report.compare("book(i), path built each time", {"", race[built]},
                 {"map, string built", race[map_built]}, at_most(1.0));
  report.compare("flat key", {"", race[ours]}, {"bare std::mutex", race[mutex]});

  report.figure("allocations, 100,000 flat keys", allocations_of(lock_claim(space, flat)), "",
                at_most(0));
  report.figure("allocations, 100,000 book(3)",
                allocations_of(repeat([&] { const Hold hold = below.lock(book(3)); })), "",
                at_most(0));
}

void ask_uncontended_alone(Report& report) {
  pin_to_core(0);
  const Space space = open("local:");
  const Claim flat = book.exclusive();
  const std::string key = "book";
  MapOfMutexes map;

  Race race{report.effort()};
  const auto ours = race.add(lock_claim(space, flat));
  const auto mutexes = race.add(lock_in_map(map, key));
  race.run();
  report.compare("flat key", {"", race[ours]}, {"map of mutexes", race[mutexes]});
}

}  // namespace tenure::bench
