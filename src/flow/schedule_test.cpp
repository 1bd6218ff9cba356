// Schedules: when they fire, what happens to overlapping runs, crashes at every write.
#include "tenure/schedule.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <chrono>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "flow/schedule_rule.hpp"
#include "tenure/flow_test.hpp"

namespace tenure {
namespace {

using namespace std::chrono_literals;

int nothing(int value) { return value; }
Flow<int> quick(Context& ctx, int value) { co_return co_await ctx.run("work", nothing, value); }
Flow<> slow(Context& ctx, std::chrono::nanoseconds::rep minutes) {
  co_await ctx.sleep(std::chrono::minutes{minutes});
}

void define(test::Engine& engine) {
  engine.define("quick", quick);
  engine.define("slow", slow);
}

// Runs by id, with their states.
std::map<std::string, std::string> runs(test::Engine& engine) {
  std::map<std::string, std::string> all;
  for (const FlowInfo& info : engine.list()) all[info.id] = std::string{text_of(info.state)};
  return all;
}

std::string minutes_of(test::Engine& engine) {
  std::string text;
  for (const auto& [id, state] : runs(engine)) {
    text += id.substr(id.find('T') + 1, 5) + " " + state + "; ";
  }
  return text;
}

// The clock of a test starts at midnight.
class ScheduleTest : public ::testing::Test {
 protected:
  ScheduleTest() { define(engine); }
  void schedule(ScheduleOptions options, std::int64_t minutes = 0) {
    if (minutes > 0) {
      engine.engine().schedule(std::move(options), "slow", minutes);
    } else {
      engine.engine().schedule(std::move(options), "quick", 7);
    }
    engine.settle();
  }
  ScheduleInfo info(const std::string& id) { return engine.engine().schedule_info(id); }
  test::Engine engine;
};

TEST_F(ScheduleTest, FiresAtEachTimeOnce) {
  schedule({.id = "poll", .every = 15min});
  EXPECT_EQ(info("poll").due, engine.now() + 15min);
  engine.advance(14min);
  EXPECT_EQ(minutes_of(engine), "");
  engine.advance(46min);
  EXPECT_EQ(minutes_of(engine),
            "00:15 completed; 00:30 completed; 00:45 completed; 01:00 completed; ");
  const ScheduleInfo now = info("poll");
  EXPECT_EQ(now.fired, 4U);
  EXPECT_EQ(now.last, engine.now());
  EXPECT_EQ(now.running, std::vector<std::string>{});
  EXPECT_EQ(now.next(engine.now(), 2), (std::vector{engine.now() + 15min, engine.now() + 30min}));
  const std::vector<FlowInfo> tagged = engine.list({.tags = {{"schedule", "poll"}}});
  EXPECT_EQ(tagged.size(), 4U);
  EXPECT_EQ(tagged.front().input, "[7]");
}

TEST_F(ScheduleTest, FiresByCronInAZone) {
  schedule({.id = "nightly", .cron = "30 2 * * *", .zone = "Europe/Berlin"});
  engine.advance(std::chrono::days{2});
  EXPECT_EQ(runs(engine).size(), 2U);
}

TEST_F(ScheduleTest, SkipsATimeWhileTheRunBeforeGoesOn) {
  schedule({.id = "a", .every = 10min, .overlap = Overlap::skip}, 25);
  engine.advance(60min);
  EXPECT_EQ(minutes_of(engine), "00:10 completed; 00:40 running; ");
  EXPECT_EQ(info("a").skipped, 4U);
}

TEST_F(ScheduleTest, BuffersOne) {
  schedule({.id = "a", .every = 10min, .overlap = Overlap::buffer_one}, 25);
  engine.advance(61min);
  // 10 runs until 35, 20 then until 60, and 40 (the first after the buffer was empty) after that.
  EXPECT_EQ(minutes_of(engine), "00:10 completed; 00:20 completed; 00:40 running; ");
}

TEST_F(ScheduleTest, BuffersAll) {
  schedule({.id = "a", .every = 10min, .overlap = Overlap::buffer_all}, 15);
  engine.advance(66min);
  EXPECT_EQ(minutes_of(engine),
            "00:10 completed; 00:20 completed; 00:30 completed; 00:40 running; ");
  EXPECT_EQ(info("a").buffered, 2U);
  EXPECT_EQ(info("a").skipped, 0U);
}

TEST_F(ScheduleTest, CancelsTheRunBefore) {
  schedule({.id = "a", .every = 10min, .overlap = Overlap::cancel_running}, 25);
  engine.advance(31min);
  EXPECT_EQ(minutes_of(engine), "00:10 cancelled; 00:20 cancelled; 00:30 running; ");
}

TEST_F(ScheduleTest, LetsRunsOverlap) {
  schedule({.id = "a", .every = 10min, .overlap = Overlap::allow_all}, 25);
  engine.advance(31min);
  EXPECT_EQ(minutes_of(engine), "00:10 running; 00:20 running; 00:30 running; ");
}

TEST_F(ScheduleTest, CatchesUpWithinItsWindow) {
  schedule({.id = "a", .every = 10min, .overlap = Overlap::allow_all, .catch_up = 25min});
  schedule({.id = "b", .every = 10min, .overlap = Overlap::allow_all, .catch_up = 24h});
  engine.crash();
  engine.store().advance(65min);
  engine.recover();
  std::map<char, std::string> fired;
  for (const auto& [id, state] : runs(engine)) fired[id[0]] += id.substr(13, 5) + " ";
  EXPECT_EQ(fired['a'], "00:40 00:50 01:00 ");
  EXPECT_EQ(fired['b'], "00:10 00:20 00:30 00:40 00:50 01:00 ");
  const auto missed = info("a").missed;
  ASSERT_TRUE(missed);
  EXPECT_EQ(missed->first, MemoryStore::virtual_start + 10min);
  EXPECT_FALSE(info("b").missed);
}

TEST_F(ScheduleTest, PausesResumesAndIsTriggered) {
  schedule({.id = "a", .every = 10min});
  engine.engine().pause_schedule("a");
  engine.settle();
  engine.advance(35min);
  EXPECT_EQ(minutes_of(engine), "");
  EXPECT_FALSE(info("a").due);
  engine.engine().trigger_schedule("a");
  engine.settle();
  EXPECT_EQ(minutes_of(engine), "00:35 completed; ");
  engine.engine().resume_schedule("a");
  engine.settle();
  engine.advance(6min);
  EXPECT_EQ(minutes_of(engine), "00:35 completed; 00:40 completed; ");
}

TEST_F(ScheduleTest, CanBeChangedAndRemoved) {
  schedule({.id = "a", .every = 10min});
  engine.advance(10min);
  schedule({.id = "a", .every = 1h});
  schedule({.id = "a", .every = 1h});
  engine.advance(1h);
  EXPECT_EQ(minutes_of(engine), "00:10 completed; 01:00 completed; ");
  EXPECT_EQ(engine.engine().schedules().size(), 1U);
  engine.engine().remove_schedule("a");
  engine.settle();
  engine.advance(5h);
  EXPECT_EQ(runs(engine).size(), 2U);
  EXPECT_THROW(engine.engine().pause_schedule("a"), NoSuchSchedule);
  EXPECT_EQ(engine.engine().next_timer(), std::nullopt);
}

TEST_F(ScheduleTest, CountsWhatALimitRefuses) {
  test::Engine limited;
  limited.define("slow", slow, {.concurrency = {.max = 1}});
  limited.engine().schedule({.id = "a", .every = 10min, .overlap = Overlap::allow_all}, "slow", 25);
  limited.settle();
  limited.advance(45min);
  EXPECT_EQ(minutes_of(limited), "00:10 completed; 00:40 running; ");
  EXPECT_EQ(limited.engine().schedule_info("a").skipped, 2U);
  EXPECT_EQ(limited.engine().schedule_info("a").fired, 2U);
}

TEST_F(ScheduleTest, RefusesWhatCannotWork) {
  const auto refusal = [&](ScheduleOptions options, std::string_view type = "quick") {
    try {
      engine.engine().schedule(std::move(options), type, 7);
      return std::string{"none"};
    } catch (const BadRequest& error) {
      return std::string{error.what()};
    }
  };
  EXPECT_EQ(refusal({.id = "", .every = 1h}), "a schedule must have an id");
  EXPECT_EQ(refusal({.id = "a"}),
            "schedule 'a' needs either a cron expression or a period (every)");
  EXPECT_EQ(refusal({.id = "a", .every = 1us}), "the period of schedule 'a' must be at least 1 ms");
  EXPECT_EQ(refusal({.id = "a", .every = 1h, .catch_up = 1s}),
            "the catch-up window of schedule 'a' must be at least 10 s: engines take that long to "
            "take over");
  EXPECT_EQ(refusal({.id = "a", .every = 1h}, "none"),
            "there is no workflow type 'none': define it before starting one");
  EXPECT_EQ(engine.engine().schedules().size(), 0U);
}

// --- the rule alone

RC_GTEST_PROP(ScheduleRule, DealsWithEachTimeOnceWhateverHappens, ()) {
  flow::ScheduleState state;
  state.options.id = "a";
  state.options.every = std::chrono::minutes{*rc::gen::inRange(1, 30)};
  state.options.overlap = static_cast<Overlap>(*rc::gen::inRange(0, 5));
  state.options.jitter = std::chrono::seconds{*rc::gen::inRange(0, 600)};
  state.options.catch_up = std::chrono::minutes{*rc::gen::inRange(1, 200)};
  state.last = state.created = MemoryStore::virtual_start;
  Instant now = state.last;
  std::set<Instant> started;
  std::set<std::string> running;
  for (int i = 0; i < 60; ++i) {
    std::vector<std::string> ended;
    if (!running.empty() && *rc::gen::inRange(0, 2) == 0) {
      ended.push_back(*running.begin());
      running.erase(running.begin());
    }
    now += std::chrono::seconds{*rc::gen::inRange(0, 3000)};
    const Instant before = state.last;
    const flow::ScheduleStep made = flow::step(state, ended, now);
    state = made.state;
    RC_ASSERT(state.last >= before);
    RC_ASSERT(state.buffered.size() <= flow::max_buffered);
    if (made.start) {
      RC_ASSERT(started.insert(*made.start).second);
      RC_ASSERT(*made.start <= now);
      if (state.options.overlap != Overlap::allow_all) {
        RC_ASSERT(running.empty());
        running.insert(flow::run_id("a", *made.start));
      }
    }
    RC_ASSERT(!state.buffered.empty() <= !state.running.empty());
    RC_ASSERT(made.again || (state.timer && *state.timer > now));
    const auto decoded = flow::decode_schedule(flow::encode(state));
    RC_ASSERT(decoded.has_value());
    RC_ASSERT(*decoded == state);
  }
}

TEST(ScheduleRule, JitterIsWithinItsBoundAndAlwaysTheSame) {
  const ScheduleOptions options{.id = "a", .every = 1h, .jitter = 10min};
  std::set<std::int64_t> seen;
  for (int i = 0; i < 100; ++i) {
    const Instant time = MemoryStore::virtual_start + i * 1h;
    const auto late = flow::due_of(options, time) - time;
    EXPECT_GE(late, 0s);
    EXPECT_LT(late, 10min);
    EXPECT_EQ(flow::due_of(options, time) - time, late);
    seen.insert(late.count());
  }
  EXPECT_GT(seen.size(), 90U);
}

// --- crashes before and after every write

struct Result {
  std::string text;
  std::size_t writes = 0;
  bool crashed = false;
};

Result run(std::size_t write, bool after) {
  test::Engine engine{{.resident = 0, .partitions = 2}};
  define(engine);
  using Action = std::function<void(tenure::Engine&)>;
  const auto schedule = [](std::string id, Overlap overlap, int minutes) -> Action {
    return [=](tenure::Engine& e) {
      e.schedule({.id = id, .every = 10min, .overlap = overlap, .catch_up = 2h}, "slow", minutes);
    };
  };
  const std::vector<std::pair<Action, Instant>> script{
      {schedule("skip", Overlap::skip, 12), {}},
      {schedule("one", Overlap::buffer_one, 25), {}},
      {schedule("all", Overlap::buffer_all, 15), {}},
      {schedule("cancel", Overlap::cancel_running, 15), {}},
      {schedule("overlap", Overlap::allow_all, 15), {}},
      {[](tenure::Engine& e) {
         e.schedule({.id = "late", .every = 10min, .phase = 1min, .jitter = 1min}, "quick", 1);
       },
       MemoryStore::virtual_start + 21min},
      {[](tenure::Engine& e) { e.trigger_schedule("skip"); }, {}},
      {[](tenure::Engine& e) { e.pause_schedule("overlap"); }, {}},
      {[](tenure::Engine& e) {
         try {
           e.remove_schedule("late");
         } catch (const NoSuchSchedule&) {  // Before the crash.
         }
       },
       MemoryStore::virtual_start + 33min},
      {[](tenure::Engine& e) { e.resume_schedule("overlap"); },
       MemoryStore::virtual_start + 42min}};
  if (write > 0) engine.crash_at(write, after);
  Result result;
  for (const auto& [action, until] : script) {
    for (bool done = false; !done;) {
      try {
        action(engine.engine());
        engine.settle();
        if (!engine.crashed() && until > engine.now()) engine.advance(until - engine.now());
      } catch (const std::exception&) {
        if (!engine.crashed()) throw;
      }
      done = !engine.crashed();
      if (done) break;
      result.crashed = true;
      engine.crash();
      engine.recover();
    }
  }
  for (const auto& [id, state] : runs(engine)) {
    result.text +=
        id.substr(0, id.find('@')) + "-" + id.substr(id.find('T') + 1, 5) + " " + state + "\n";
  }
  for (const ScheduleInfo& info : engine.engine().schedules()) {
    result.text += info.options.id + " " + std::to_string(info.fired) + " " +
                   std::to_string(info.buffered) + " " + std::to_string(info.running.size()) + "\n";
  }
  Txn txn;
  txn.reads.push_back(Range::prefix(std::string{reserved::flow_workflows} + 'i'));
  result.text += std::to_string(engine.store().apply(txn).reads.front().size()) + " messages";
  result.writes = engine.writes();
  return result;
}

TEST(ScheduleCrash, ChangesNothingBeforeAndAfterEveryWrite) {
  const Result calm = run(0, false);
  constexpr std::string_view expected = R"(all-00:10 completed
all-00:20 completed
all-00:30 running
cancel-00:10 cancelled
cancel-00:20 cancelled
cancel-00:30 cancelled
cancel-00:40 running
late-00:01 completed
late-00:11 completed
one-00:10 completed
one-00:20 running
overlap-00:10 completed
overlap-00:20 completed
overlap-00:40 running
skip-00:10 completed
skip-00:30 completed
all 3 1 1
cancel 4 0 1
one 2 1 1
overlap 3 0 0
skip 2 0 0
0 messages)";
  ASSERT_EQ(calm.text, expected);
  for (std::size_t write = 1; write <= calm.writes; ++write) {
    for (const bool after : {false, true}) {
      const Result crashed = run(write, after);
      ASSERT_EQ(crashed.text, calm.text) << (after ? "after" : "before") << " write " << write;
      ASSERT_TRUE(crashed.crashed) << write;
    }
  }
}

}  // namespace
}  // namespace tenure
