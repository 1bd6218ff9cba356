// Workflows that sleep: what they cost, and how fast many of them are woken.
#include <malloc.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <future>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "bench/flow/questions.hpp"
#include "bench/flow/runs.hpp"
#include "bench/program.hpp"
#include "bench/stored/questions.hpp"
#include "bench/stored/sqlite.hpp"
#include "bench/stored/supervise.hpp"

namespace tenure::bench::flow {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t all_sleepers = 100'000;
constexpr std::size_t woken = 1'000;

Flow<> sleeps(Context& ctx) { co_await ctx.sleep(24h); }
Flow<> sleeps_until(Context& ctx, std::int64_t due) {
  co_await ctx.sleep_until(Instant{std::chrono::nanoseconds{due}});
}

void define(Engine& engine) {
  engine.define("sleeps", sleeps);
  engine.define("sleeps-until", sleeps_until);
}

// Every start is stored; those that are in memory beyond the window still fall asleep.
void let_sleep(const Engine& engine, std::size_t resident) {
  while (engine.resident() > resident) std::this_thread::sleep_for(5ms);
}

struct Memory {
  double used = 0;      // What malloc() has handed out.
  double resident = 0;  // With the pages that it could not give back.
};
Memory memory_now() {
  ::malloc_trim(0);  // Pages that are free are not memory of a sleeper's.
  return {.used = static_cast<double>(::mallinfo2().uordblks), .resident = resident_bytes()};
}

// Bytes per sleeper beyond the first `count`, which fill every window and the cache of the store,
// in the engine that started them: {used, resident}.
std::vector<double> growth_by_each(const std::string& url, std::size_t count) {
  constexpr std::size_t more = 5;
  EngineOptions options;
  options.durability = Durability::relaxed;
  Engine engine{store(url), options};
  define(engine);
  const auto memory_with_more = [&](std::size_t sleepers) {
    start_many(engine, "sleeps", sleepers);
    let_sleep(engine, options.resident);
    return memory_now();
  };
  const Memory before = memory_with_more(count);
  const Memory after = memory_with_more(more * count);
  const auto sleepers = static_cast<double>(more * count);
  return {(after.used - before.used) / sleepers, (after.resident - before.resident) / sleepers};
}

// Of an engine that did not start them.
double resident_with_all(const std::string& url) {
  Engine engine{store(url)};
  define(engine);
  engine.recover_all();
  return memory_now().resident;
}

// Starts so many that are due at one moment, in an engine that ends; brings up another one, and
// returns the nanoseconds from that moment until all have ended, for each.
double wake(const std::string& url, std::size_t count, std::chrono::seconds ahead) {
  const std::shared_ptr<Store> shared = store(url);
  const Instant due = shared->now() + ahead;
  std::vector<std::string> ids;
  {
    Engine engine{shared};
    define(engine);
    std::promise<void> all;
    std::atomic<std::size_t> left{count};
    for (std::size_t i = 0; i < count; ++i) {
      ids.push_back("due-" + std::to_string(due.time_since_epoch().count()) + "-" +
                    std::to_string(i));
      engine.start_then(
          [&](const std::optional<Run>& /*run*/, const std::exception_ptr& error) {
            if (error) std::terminate();
            if (left.fetch_sub(1) == 1) all.set_value();
          },
          {.id = ids.back()}, "sleeps-until",
          static_cast<std::int64_t>(due.time_since_epoch().count()));
    }
    all.get_future().get();
  }
  Engine engine{shared};
  define(engine);
  engine.recover_all();
  std::promise<void> all;
  std::atomic<std::size_t> left{count};
  for (const std::string& id : ids) {
    engine.run(id).then([&](const FlowInfo& info) {
      if (info.state != FlowState::completed) std::terminate();
      if (left.fetch_sub(1) == 1) all.set_value();
    });
  }
  if (shared->now() >= due) throw std::runtime_error("the machine is too busy: sleepers were due");
  all.get_future().get();
  const std::chrono::duration<double, std::nano> time = shared->now() - due;
  return time.count() / static_cast<double>(count);
}

}  // namespace

void ask_sleepers(Report& report) {
  const std::string url = sqlite_url("sleepers");
  const std::size_t count = report.effort().of(all_sleepers, 3'000);
  const auto resident_now = [&] {
    return in_a_process([&] { return std::vector{resident_with_all(url)}; }).front();
  };
  static_cast<void>(in_a_process([&] {
    Engine engine{store(url)};
    define(engine);
    start_many(engine, "sleeps", count);
    return std::vector{resident_bytes()};
  }));
  const double few = resident_now();
  const std::vector<double> growth = in_a_process([&] { return growth_by_each(url, count); });
  report.figure("resident memory of each, in an engine that takes the store over",
                (resident_now() - few) / static_cast<double>(6 * count), "bytes", at_most(1));
  report.figure("memory in use of each, in the engine that started them", growth[0], "bytes",
                at_most(1));
  // For information: it changes by a megabyte in both directions while the bytes in use do not.
  report.figure("the same with free pages that malloc() keeps", growth[1], "bytes");
  Samples starts;
  for (std::size_t i = 0; i < report.effort().of(5, 1); ++i) {
    const auto start = std::chrono::steady_clock::now();
    Engine engine{store(url)};
    define(engine);
    engine.recover_all();
    starts.push_back(nanoseconds_since(start) / 1e6);
  }
  report.figure("start of an engine on that store", spread_of(starts).median, "ms", at_most(100));
  stored::SyncedRows rows{stored::scratch_path("loop")};
  Race race{report.effort()};
  const auto bare = race.add_round([&] { return rows.put_ns(report.effort().of(500, 5)); });
  const auto ours = race.add_round([&] { return wake(url, report.effort().of(woken, 50), 5s); });
  race.run(5);
  report.compare("1,000 woken at once, per second", {"", stored::a_second(race[ours]), "/s"},
                 {"synced rows", stored::a_second(race[bare]), "/s"}, at_least(3));
}

}  // namespace tenure::bench::flow
