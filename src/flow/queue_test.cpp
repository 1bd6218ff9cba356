// Starts that queue for a place, and limits on starts per time: order, positions, cancellation,
// crashes at every write.
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "tenure/flow_test.hpp"

namespace tenure {
namespace {

using namespace std::chrono_literals;

int identity(int value) { return value; }
Flow<int> job(Context& ctx, std::string /*key*/, int minutes) {
  co_await ctx.sleep(std::chrono::minutes{minutes});
  co_return co_await ctx.run("work", identity, minutes);
}
Flow<std::string> listener(Context& ctx, std::string /*key*/) {
  co_return co_await ctx.wait_signal<std::string>("word");
}

std::string by_first(const std::string& key, const int& /*minutes*/) { return key; }
std::string by_key(const std::string& key) { return key; }

void define(test::Engine& engine, std::uint32_t max = 1, std::uint32_t queue = 5) {
  engine.define("job", job, {.concurrency = {.max = max, .key = by_first, .queue = queue}});
  engine.define("listener", listener, {.concurrency = {.max = 1, .key = by_key, .queue = 2}});
}

// "a running; b queued 0; "
std::string states(test::Engine& engine) {
  std::map<std::string, std::string> lines;
  for (const FlowInfo& info : engine.list()) {
    lines[info.id] = std::string{text_of(info.state)} +
                     (info.position ? " " + std::to_string(*info.position) : "");
  }
  std::string text;
  for (const auto& [id, line] : lines) text += id + " " + line + "; ";
  return text;
}

// Keys of places, queues and seats that are in the store.
std::string left(test::Engine& engine) {
  std::string text;
  for (const char table : {'a', 'q', 'e', 'f', 't', 'i', 'r'}) {
    Txn txn;
    txn.reads.push_back(Range::prefix(std::string{reserved::flow_workflows} + table));
    const std::size_t count = engine.store().apply(txn).reads.front().size();
    if (count > 0) text += std::string{table} + std::to_string(count) + " ";
  }
  return text;
}

TEST(FlowQueue, AdmitsInTheOrderOfTheStarts) {
  test::Engine engine;
  define(engine);
  for (const char* const id : {"a", "b", "c"}) engine.start({.id = id}, "job", "k", 10);
  engine.start({.id = "other"}, "job", "l", 5);  // Another key.
  EXPECT_EQ(states(engine), "a running; b queued 0; c queued 1; other running; ");
  EXPECT_EQ(engine.engine().run("c").info().position, 1U);
  engine.advance(10min);
  EXPECT_EQ(states(engine), "a completed; b running; c queued 0; other completed; ");
  engine.start({.id = "d"}, "job", "k", 1);
  engine.advance(10min);
  EXPECT_EQ(states(engine), "a completed; b completed; c running; d queued 0; other completed; ");
  engine.advance(1h);
  EXPECT_EQ(left(engine), "");
  engine.start({.id = "e"}, "job", "k", 1);
  EXPECT_EQ(engine.engine().run("e").info().state, FlowState::running);
}

TEST(FlowQueue, HasALimit) {
  test::Engine engine;
  define(engine, 1, 2);
  for (const char* const id : {"a", "b", "c"}) engine.start({.id = id}, "job", "k", 10);
  EXPECT_THROW(engine.start({.id = "d"}, "job", "k", 10), QueueFull);
  engine.advance(10min);
  engine.start({.id = "d"}, "job", "k", 10);
  EXPECT_EQ(states(engine), "a completed; b running; c queued 0; d queued 1; ");
  EXPECT_THROW(engine.start({.id = "e"}, "job", "k", 10), QueueFull);
  engine.crash();  // What an engine knew of the seats is in the store.
  engine.recover();
  EXPECT_THROW(engine.start({.id = "e"}, "job", "k", 10), QueueFull);
  engine.advance(1h);
  EXPECT_EQ(left(engine), "");
}

TEST(FlowQueue, ReturnsTheRunThatAnIdempotencyKeyStarted) {
  test::Engine engine;
  define(engine);
  engine.start({.id = "a"}, "job", "k", 10);
  engine.start({.id = "b", .idempotency_key = "x"}, "job", "k", 10);
  EXPECT_EQ(engine.start({.idempotency_key = "x"}, "job", "k", 10).id(), "b");
  EXPECT_THROW(engine.start({.id = "b"}, "job", "k", 10), AlreadyStarted);
  EXPECT_EQ(states(engine), "a running; b queued 0; ");
}

TEST(FlowQueue, IsLeftByCancelTerminateAndDeadline) {
  test::Engine engine;
  define(engine);
  engine.start({.id = "a"}, "job", "k", 60);
  engine.start({.id = "b"}, "job", "k", 1);
  engine.start({.id = "c"}, "job", "k", 1);
  engine.start({.id = "d", .deadline = engine.now() + 5min}, "job", "k", 1);
  engine.start({.id = "e"}, "job", "k", 1);
  engine.cancel("b");
  engine.terminate("c", "no");
  EXPECT_EQ(states(engine), "a running; b cancelled; c cancelled; d queued 0; e queued 1; ");
  engine.advance(5min);
  EXPECT_EQ(states(engine), "a running; b cancelled; c cancelled; d timed-out; e queued 0; ");
  engine.advance(55min);
  EXPECT_EQ(engine.engine().run("e").info().state, FlowState::running);
  engine.advance(1h);
  EXPECT_EQ(left(engine), "");
}

TEST(FlowQueue, KeepsSignalsForAQueuedWorkflow) {
  test::Engine engine{{.resident = 0, .partitions = 4}};
  define(engine);
  engine.start({.id = "a"}, "listener", "k");
  engine.start({.id = "b"}, "listener", "k");
  engine.signal("b", "word", std::string{"second"});
  engine.signal("a", "word", std::string{"first"});
  EXPECT_EQ(states(engine), "a completed; b completed; ");
  EXPECT_EQ(engine.engine().run("b").info().result, "\"second\"");
  EXPECT_EQ(left(engine), "");
}

TEST(FlowQueue, AWorkflowThatStartsLaterKeepsItsTime) {
  test::Engine engine;
  define(engine);
  engine.start({.id = "a"}, "job", "k", 10);
  engine.start({.id = "b", .after = 1h}, "job", "k", 1);
  engine.start({.id = "c", .after = 5min}, "job", "k", 1);
  engine.advance(20min);
  EXPECT_EQ(states(engine), "a completed; b scheduled; c queued 0; ");
  engine.advance(41min);
  EXPECT_EQ(states(engine), "a completed; b completed; c running; ");
  engine.advance(1min);
  EXPECT_EQ(left(engine), "");
}

TEST(FlowQueue, RefusesLimitsThatCannotWork) {
  test::Engine engine;
  EXPECT_THROW(engine.define("x", job, {.concurrency = {.queue = 3}}), BadRequest);
  EXPECT_THROW(engine.define("y", job, {.rate = {.max = 3}}), BadRequest);
}

// Random starts, ends and cancellations: never more than the limit at once, first come, first
// served, and nothing left.
TEST(FlowQueue, KeepsItsPromisesWhateverHappens) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    std::mt19937_64 random{seed};
    test::Engine engine{{.resident = seed % 2 == 0 ? 0U : 100U, .partitions = 3}};
    define(engine, 2, 50);
    std::vector<std::string> order;  // That are not known to have been cancelled.
    for (int i = 0; i < 40; ++i) {
      const std::string id = std::to_string(100 + i);
      engine.start({.id = id}, "job", "k", 1 + static_cast<int>(random() % 9));
      order.push_back(id);
      if (random() % 4 == 0) {
        const std::string victim = order.at(random() % order.size());
        if (!is_terminal(engine.engine().run(victim).info().state)) engine.cancel(victim);
      }
      if (random() % 3 == 0) engine.advance(std::chrono::minutes{random() % 6});
      int running = 0;
      bool queued = false;
      for (const std::string& one : order) {
        const FlowState state = engine.engine().run(one).info().state;
        if (state == FlowState::queued) queued = true;
        if (state != FlowState::running) continue;
        ++running;
        ASSERT_FALSE(queued) << "seed " << seed << ": " << one << " overtook";
      }
      ASSERT_LE(running, 2) << "seed " << seed;
      ASSERT_TRUE(!queued || running == 2) << "seed " << seed << ": a free place beside a queue";
    }
    engine.advance(24h);
    ASSERT_EQ(left(engine), "") << "seed " << seed;
  }
}

// --- crashes

struct Result {
  std::string text;
  std::size_t writes = 0;
  bool crashed = false;
};

Result run(std::size_t write, bool after) {
  test::Engine engine{{.resident = 0, .partitions = 2}};
  define(engine, 2, 5);
  using Action = std::function<void(test::Engine&)>;
  const auto start = [](std::string id, int minutes) -> Action {
    return
        [=](test::Engine& e) { e.start({.id = id, .idempotency_key = id}, "job", "k", minutes); };
  };
  const std::vector<std::pair<Action, std::chrono::minutes>> script{
      {start("a", 10), 0min},
      {start("b", 10), 0min},
      {start("c", 5), 0min},
      {start("d", 5), 0min},
      {start("e", 5), 0min},
      {[](test::Engine& e) {
         try {
           e.cancel("d");
         } catch (const WorkflowEnded&) {  // Before the crash.
         }
       },
       12min},
      {start("f", 1), 13min},
      {start("g", 1), 30min}};
  if (write > 0) engine.crash_at(write, after);
  Result result;
  for (const auto& [action, until] : script) {
    while (true) {
      try {
        action(engine);
        const Instant end = MemoryStore::virtual_start + until;
        if (!engine.crashed() && end > engine.now()) engine.advance(end - engine.now());
      } catch (const std::exception&) {
        if (!engine.crashed()) throw;
      }
      if (!engine.crashed()) break;
      result.crashed = true;
      engine.crash();
      engine.recover();
    }
  }
  for (const FlowInfo& info : engine.list()) {
    if (info.ended) {
      result.text += info.id + " " + std::string{text_of(info.state)} + " at " +
                     std::to_string((*info.ended - MemoryStore::virtual_start) / 1min) + "\n";
    }
  }
  result.text += left(engine);
  result.writes = engine.writes();
  return result;
}

TEST(FlowQueueCrash, ChangesNothingBeforeAndAfterEveryWrite) {
  const Result calm = run(0, false);
  ASSERT_NE(calm.text.find("e completed at 15"), std::string::npos) << calm.text;
  ASSERT_NE(calm.text.find("d cancelled at 0"), std::string::npos) << calm.text;
  ASSERT_NE(calm.text.find("f completed at 16"), std::string::npos) << calm.text;
  ASSERT_EQ(calm.text.find("queued"), std::string::npos) << calm.text;
  for (std::size_t write = 1; write <= calm.writes; ++write) {
    for (const bool after : {false, true}) {
      const Result crashed = run(write, after);
      ASSERT_EQ(crashed.text, calm.text) << (after ? "after" : "before") << " write " << write;
      ASSERT_TRUE(crashed.crashed) << write;
    }
  }
}

// --- rates

Flow<int> quick(Context& ctx, std::string /*key*/) {
  co_return co_await ctx.run("work", identity, 1);
}

TEST(FlowRate, RefusesOrPutsOff) {
  test::Engine engine;
  engine.define("strict", quick, {.rate = {.max = 2, .per = 1min, .key = by_key}});
  engine.define("patient", quick, {.rate = {.max = 2, .per = 1min, .wait = 2min}});
  engine.start("strict", "k");
  engine.advance(10s);
  engine.start("strict", "k");
  try {
    engine.start("strict", "k");
    FAIL();
  } catch (const RateLimit& limit) {
    EXPECT_EQ(limit.limit(), 2U);
    EXPECT_EQ(limit.retry_after(), 50s);
  }
  engine.start("strict", "other");
  engine.advance(50s);
  engine.start("strict", "k");
  EXPECT_THROW(engine.start("strict", "k"), RateLimit);
  engine.crash();
  engine.recover();
  EXPECT_THROW(engine.start("strict", "k"), RateLimit);

  const Instant begin = engine.now();
  std::vector<std::chrono::nanoseconds> starts;
  for (int i = 0; i < 6; ++i) {
    starts.push_back(engine.start("patient", "k").info().starts - begin);
  }
  EXPECT_EQ(starts, (std::vector<std::chrono::nanoseconds>{0s, 0s, 1min, 1min, 2min, 2min}));
  EXPECT_THROW(engine.start("patient", "k"), RateLimit);
  engine.advance(2min);
  for (const FlowInfo& info : engine.list({.type = "patient"})) {
    EXPECT_EQ(info.state, FlowState::completed);
  }
}

TEST(FlowRate, NeverHasMoreInAnyPeriod) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    std::mt19937_64 random{seed};
    test::Engine engine;
    const auto max = static_cast<std::uint32_t>(1 + (random() % 4));
    engine.define("x", quick, {.rate = {.max = max, .per = 10s, .wait = 30s}});
    std::multiset<Instant> starts;
    for (int i = 0; i < 60; ++i) {
      try {
        starts.insert(engine.start("x", "k").info().starts);
      } catch (const RateLimit&) {
      }
      engine.advance(std::chrono::milliseconds{random() % 4000});
    }
    for (const Instant first : starts) {
      const auto in_period =
          std::distance(starts.lower_bound(first), starts.lower_bound(first + 10s));
      ASSERT_LE(in_period, max) << "seed " << seed;
    }
  }
}

// A start that was repeated after a crash has its run, and the limit was used once for it.
TEST(FlowRate, IsUsedOnceBeforeAndAfterEveryWrite) {
  std::size_t writes = 0;
  for (std::size_t write = 0; write == 0 || write <= writes; ++write) {
    for (const bool after : {false, true}) {
      test::Engine engine{{.partitions = 2}};
      engine.define("x", quick, {.rate = {.max = 1, .per = 1min, .wait = 10min}});
      if (write > 0) engine.crash_at(write, after);
      for (const char* const id : {"a", "b", "c"}) {
        while (true) {
          try {
            engine.start({.id = id, .idempotency_key = id}, "x", "k");
          } catch (const std::exception&) {
            if (!engine.crashed()) throw;
          }
          if (!engine.crashed()) break;
          engine.crash();
          engine.recover();
        }
      }
      std::map<std::string, std::chrono::nanoseconds> starts;
      for (const FlowInfo& info : engine.list()) {
        starts[info.id] = info.starts - MemoryStore::virtual_start;
      }
      ASSERT_EQ(starts, (std::map<std::string, std::chrono::nanoseconds>{
                            {"a", 0s}, {"b", 1min}, {"c", 2min}}))
          << write << after;
      if (write == 0) writes = engine.writes();
    }
  }
}

}  // namespace
}  // namespace tenure
