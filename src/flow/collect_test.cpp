// Debounced calls and batches: which workflows start, with what, and when; two engines; crashes at
// every write.
#include "tenure/collect.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "flow/collect_rule.hpp"
#include "flow/crash_test.hpp"
#include "tenure/flow_test.hpp"
#include "tests/kit/patience.hpp"

namespace tenure {
namespace {

using namespace std::chrono_literals;

int same(int value) { return value; }
Flow<int> index(Context& ctx, int value) { co_return co_await ctx.run("index", same, value); }
std::vector<int> keep(std::vector<int> items) { return items; }
Flow<std::vector<int>> ship(Context& ctx, std::vector<int> items) {
  co_return co_await ctx.run("ship", keep, items);
}

void define(test::Engine& engine) {
  engine.define("index", index);
  engine.define("ship", ship);
}

// "5: 3 of 2 by k; ", by second.
std::string runs(test::Engine& engine) {
  std::set<std::pair<std::int64_t, std::string>> all;
  for (const FlowInfo& info : engine.list()) {
    const auto second = (info.created - MemoryStore::virtual_start) / 1s;
    const bool batch = info.tags.contains("batch");
    all.emplace(second, info.result + " of " + info.tags.at(batch ? "items" : "calls") + " by " +
                            info.tags.at(batch ? "batch" : "debounce") + "; ");
  }
  std::string text;
  for (const auto& [second, line] : all) text += std::to_string(second) + ": " + line;
  return text;
}

std::size_t rows_left(test::Engine& engine, std::string_view tables) {
  Txn txn;
  for (const char table : tables) {
    txn.reads.push_back(Range::prefix(std::string{reserved::flow_workflows} + table));
  }
  std::size_t left = 0;
  for (const std::vector<Entry>& found : engine.store().apply(txn).reads) left += found.size();
  return left;
}

class CollectTest : public ::testing::Test {
 protected:
  CollectTest() { define(engine); }
  void call(const DebounceOptions& options, int value) {
    engine.engine().debounce(options, "index", value);
    engine.settle();
  }
  void add(const BatchOptions& options, int item) {
    engine.engine().batch(options, "ship", item);
    engine.settle();
  }
  test::Engine engine;
};
using Debounce = CollectTest;
using Batch = CollectTest;

TEST_F(Debounce, StartsOneAfterTheLastCall) {
  for (int i = 0; i < 5; ++i) {
    call({.key = "k", .wait = 3s}, i);
    engine.advance(2s);
  }
  call({.key = "other", .wait = 3s}, 9);
  EXPECT_EQ(runs(engine), "");
  engine.advance(1h);
  EXPECT_EQ(runs(engine), "11: 4 of 5 by k; 13: 9 of 1 by other; ");
  call({.key = "k", .wait = 3s}, 7);
  engine.advance(3s);
  EXPECT_EQ(engine.list().size(), 3U);
  EXPECT_EQ(engine.engine().next_timer(), std::nullopt);
  EXPECT_EQ(rows_left(engine, "stid"), 0U);
}

TEST_F(Debounce, WaitsNoLongerThanItsMaximum) {
  for (int i = 0; i < 10; ++i) {
    call({.key = "k", .wait = 3s, .max_wait = 7s}, i);
    engine.advance(2s);
  }
  engine.advance(1min);
  EXPECT_EQ(runs(engine), "7: 3 of 4 by k; 15: 7 of 4 by k; 21: 9 of 2 by k; ");
}

TEST_F(Debounce, StartsTheFirstCallAtOnceWhereItLeads) {
  const DebounceOptions both{.key = "both", .wait = 3s, .leading = true};
  const DebounceOptions first{.key = "first", .wait = 3s, .leading = true, .trailing = false};
  call(both, 1);
  call(first, 1);
  engine.advance(10s);
  EXPECT_EQ(runs(engine), "0: 1 of 1 by both; 0: 1 of 1 by first; ");
  for (int i = 2; i < 5; ++i) {
    call(both, i);
    call(first, i);
  }
  engine.advance(1min);
  EXPECT_EQ(runs(engine),
            "0: 1 of 1 by both; 0: 1 of 1 by first; 10: 2 of 1 by both; 10: 2 of 1 by first; "
            "13: 4 of 2 by both; ");
}

TEST_F(Debounce, DropsARepetitionAsLongAsItRemembers) {
  const DebounceOptions options{.key = "k", .wait = 3s, .call_id = "a", .remember = 10min};
  call(options, 1);
  call(options, 2);
  engine.advance(9min);
  call(options, 3);
  engine.advance(1min);
  EXPECT_EQ(runs(engine), "3: 1 of 1 by k; ");
  engine.advance(1h);
  EXPECT_EQ(rows_left(engine, "stid"), 0U);
  call(options, 4);
  engine.advance(1h);
  EXPECT_EQ(engine.list().size(), 2U);
}

TEST_F(Debounce, ReplaysTheTimesOfCallsThatNobodySaw) {
  engine.engine().debounce({.key = "k", .wait = 3s}, "index", 0);
  engine.crash();  // Before an engine has looked at it.
  engine.store().advance(1min);
  engine.recover();
  EXPECT_EQ(runs(engine), "60: 0 of 1 by k; ");
}

TEST_F(Debounce, KeepsTheWindowWhereALimitRefuses) {
  test::Engine limited;
  limited.define("index", index, {.rate = {.max = 1, .per = 10s}});
  for (const std::string key : {"a", "b"}) {
    limited.engine().debounce({.key = key, .wait = 3s}, "index", 1);
    limited.settle();
  }
  limited.advance(5s);
  EXPECT_EQ(limited.list().size(), 1U);
  limited.advance(10s);
  EXPECT_EQ(limited.list().size(), 2U);
  EXPECT_EQ(rows_left(limited, "stid"), 0U);
}

TEST_F(Batch, StartsWhenItIsFullOrItsTimeIsOver) {
  for (int i = 0; i < 7; ++i) {
    add({.key = "k", .max_items = 3, .max_wait = 10s}, i);
    engine.advance(1s);
  }
  EXPECT_EQ(runs(engine), "2: [0,1,2] of 3 by k; 5: [3,4,5] of 3 by k; ");
  engine.advance(1min);
  EXPECT_EQ(runs(engine), "2: [0,1,2] of 3 by k; 5: [3,4,5] of 3 by k; 16: [6] of 1 by k; ");
  EXPECT_EQ(engine.engine().next_timer(), std::nullopt);
  EXPECT_EQ(rows_left(engine, "stid"), 0U);
}

TEST_F(Batch, TakesEachIdOnce) {
  for (int i = 0; i < 20; ++i) {
    const int item = i % 10;
    add({.key = "k", .max_items = 4, .max_wait = 10s, .item_id = std::to_string(item)}, item);
  }
  engine.advance(1min);
  EXPECT_EQ(runs(engine), "0: [0,1,2,3] of 4 by k; 0: [4,5,6,7] of 4 by k; 10: [8,9] of 2 by k; ");
}

TEST_F(Batch, TakesNoMoreThanItMayWhileALimitRefuses) {
  test::Engine limited;
  limited.define("ship", ship, {.rate = {.max = 1, .per = 10s}});
  for (int i = 0; i < 1200; ++i) {
    limited.engine().batch({.key = "k", .max_items = 500, .max_wait = 1h}, "ship", i);
  }
  limited.settle();
  EXPECT_EQ(limited.list().size(), 1U);
  limited.advance(11s);
  EXPECT_EQ(limited.list().size(), 2U);
  limited.advance(2h);
  std::map<std::string, int> sizes;
  for (const FlowInfo& info : limited.list()) ++sizes[info.tags.at("items")];
  EXPECT_EQ(sizes, (std::map<std::string, int>{{"500", 2}, {"200", 1}}));
  EXPECT_EQ(rows_left(limited, "stid"), 0U);
}

TEST_F(Batch, IsFullByItsBytesToo) {
  test::Engine bytes;
  bytes.define("take", [](Context& ctx, std::vector<std::string> items) -> Flow<std::size_t> {
    co_await ctx.sleep(1s);
    co_return items.size();
  });
  const std::string item(100'000, 'x');
  for (int i = 0; i < 8; ++i) {
    bytes.engine().batch({.key = "k", .max_items = 1000, .max_wait = 10s}, "take", item);
    bytes.settle();
  }
  bytes.advance(1min);
  std::set<std::string> sizes;
  for (const FlowInfo& info : bytes.list()) sizes.insert(info.result);
  EXPECT_EQ(sizes, (std::set<std::string>{"6", "2"}));
}

TEST_F(CollectTest, RefusesWhatCannotWork) {
  const auto refusal = [&](const auto& options, std::string_view type = "") {
    try {
      if constexpr (std::is_same_v<std::decay_t<decltype(options)>, BatchOptions>) {
        engine.engine().batch(options, type.empty() ? "ship" : type, 7);
      } else {
        engine.engine().debounce(options, type.empty() ? "index" : type, 7);
      }
      return std::string{"none"};
    } catch (const BadRequest& error) {
      return std::string{error.what()};
    }
  };
  EXPECT_EQ(refusal(DebounceOptions{.key = "k"}),
            "debounce of 'index': wait must be greater than zero, and at most a hundred years");
  EXPECT_EQ(refusal(DebounceOptions{.key = "k", .wait = 2s, .max_wait = 1s}),
            "debounce of 'index': max_wait must be zero for no limit, or at least wait and at most "
            "a hundred years");
  EXPECT_EQ(refusal(DebounceOptions{.key = "k", .wait = 2s, .trailing = false}),
            "debounce of 'index': nothing would ever start; set leading, trailing or both");
  EXPECT_EQ(refusal(DebounceOptions{.key = std::string(500, 'k'), .wait = 2s}),
            "debounce of 'index': type and key have 505 bytes; use at most 400");
  EXPECT_EQ(refusal(DebounceOptions{.key = "k", .wait = 2s, .remember = 0s}),
            "a call of 'index': remember must be greater than zero, and at most a hundred years");
  EXPECT_EQ(refusal(DebounceOptions{.key = "\xff", .wait = 2s}),
            "debounce of 'index': the key must be UTF-8");
  EXPECT_EQ(refusal(DebounceOptions{.key = "k", .wait = 2s}, "none"),
            "there is no workflow type 'none': define it before starting one");
  EXPECT_EQ(refusal(BatchOptions{.key = "k", .max_wait = 1s}),
            "batch of 'ship': max_items must be 1 to 10000, not 0");
  EXPECT_EQ(refusal(BatchOptions{.key = "k", .max_items = 5}),
            "batch of 'ship': max_wait must be greater than zero, and at most a hundred years");
  EXPECT_NE(refusal(BatchOptions{.key = "k", .max_items = 5, .max_wait = 1s}, "index")
                .find("workflow 'index' cannot be started with [[7]]"),
            std::string::npos);
  EXPECT_EQ(rows_left(engine, "sid"), 0U);
}

// --- the rule alone: a window ends, and loses and doubles no call

RC_GTEST_PROP(CollectRule, CountsEachCallOnce, ()) {
  flow::CollectOptions options;
  if (*rc::gen::arbitrary<bool>()) {
    options.max_items = *rc::gen::inRange<std::uint32_t>(1, 6);
    options.max_wait = std::chrono::seconds{*rc::gen::inRange(1, 10)};
  } else {
    options.wait = std::chrono::seconds{*rc::gen::inRange(1, 10)};
    if (*rc::gen::arbitrary<bool>()) options.max_wait = options.wait * *rc::gen::inRange(1, 5);
    options.leading = *rc::gen::arbitrary<bool>();
  }
  std::optional<flow::CollectState> row;
  std::vector<flow::CollectCall> waiting;
  Instant now = MemoryStore::virtual_start;
  std::uint64_t calls = 0;
  std::uint64_t counted = 0;
  bool limited = true;
  const auto run = [&] {
    for (bool again = true; again;) {
      const flow::CollectStep made = flow::step(row, waiting, now);
      waiting.erase(waiting.begin(), waiting.begin() + static_cast<std::ptrdiff_t>(made.consumed));
      again = made.again;
      row = made.state;
      const bool refused = made.start && limited && *rc::gen::inRange(0, 4) == 0;
      if (refused) {  // By a limit.
        row = flow::put_off(made.before, now);
        again = false;
      } else {
        counted += made.calls;
      }
      if (made.forget) row = flow::forgot(*row, *made.forget);
      RC_ASSERT(*flow::decode_collect(flow::encode(*row)) == *row);
      if (row->calls == 0 && row->generations.empty()) row.reset();
      RC_ASSERT((!row || again || refused || row->timer > now));
    }
  };
  for (int i = 0; i < 40; ++i) {
    for (int left = *rc::gen::inRange(0, 5); left > 0; --left, ++calls) {
      flow::CollectCall call{.options = options,
                             .type = "t",
                             .input = std::to_string(calls),
                             .at = now,
                             .generation = std::nullopt};
      if (*rc::gen::arbitrary<bool>()) call.generation = flow::generation_at(5s, now);
      RC_ASSERT(*flow::decode_call(flow::encode(call)) == call);
      waiting.push_back(call);
    }
    now += std::chrono::milliseconds{*rc::gen::inRange(0, 4000)};
    if (*rc::gen::inRange(0, 3) > 0) run();
  }
  limited = false;
  for (int i = 0; i < 1000 && (row || !waiting.empty()); ++i) {
    run();
    if (row && row->timer) now = std::max(now, *row->timer);
  }
  RC_ASSERT(!row);
  RC_ASSERT(counted == calls);
}

// --- two engines on one store: calls of both make one window

TEST(CollectTwoEngines, ShareTheWindows) {
  const auto store = std::make_shared<MemoryStore>();
  constexpr int items = 200;
  constexpr int threads = 4;
  Engine one{store, {.partitions = 4}};
  Engine two{store, {.partitions = 4}};
  for (Engine* const engine : {&one, &two}) {
    engine->define("ship", ship);
    engine->recover_all();
  }
  std::vector<std::future<void>> callers;
  for (int t = 0; t < threads; ++t) {
    callers.push_back(std::async(std::launch::async, [&, t] {
      Engine& engine = t % 2 == 0 ? one : two;
      for (int i = 0; i < items; ++i) {  // Each item comes from all.
        engine.batch({.key = std::to_string(i % 3),
                      .max_items = 10,
                      .max_wait = 50ms,
                      .item_id = std::to_string(i)},
                     "ship", i);
      }
    }));
  }
  for (std::future<void>& caller : callers) caller.get();
  std::multiset<int> seen;
  kit::until([&] {
    seen.clear();
    for (const FlowInfo& info : one.list()) {
      const auto list = detail::decode_arguments<std::vector<int>>(info.input);
      const std::vector<int>& batch = std::get<0>(list);
      EXPECT_LE(batch.size(), 10U);
      seen.insert(batch.begin(), batch.end());
    }
    return seen.size() >= items;
  });
  EXPECT_EQ(seen.size(), static_cast<std::size_t>(items));
  EXPECT_EQ(std::set<int>(seen.begin(), seen.end()).size(), static_cast<std::size_t>(items));
}

// --- crashes before and after every write

crash_kit::Action debounce(std::string key, int value, bool leads) {
  return [=](test::Engine& engine) {
    engine.engine().debounce({.key = key,
                              .wait = 3s,
                              .max_wait = 20s,
                              .leading = leads,
                              .call_id = std::to_string(value),
                              .remember = 1min},
                             "index", value);
    engine.settle();
  };
}
crash_kit::Action batch(int item) {
  return [=](test::Engine& engine) {
    engine.engine().batch({.key = "b",
                           .max_items = 3,
                           .max_wait = 5s,
                           .item_id = std::to_string(item),
                           .remember = 1min},
                          "ship", item);
    engine.settle();
  };
}

TEST(CollectCrash, ChangesNothingBeforeAndAfterEveryWrite) {
  crash_kit::Scenario scenario;
  scenario.define = define;
  for (int i = 0; i < 4; ++i) {
    scenario.script.push_back(debounce("last", i, false));
    scenario.script.push_back(debounce("both", i, true));
    scenario.script.push_back(batch(i));
    scenario.script.push_back(crash_kit::until((i * 2s) + 2s));
  }
  scenario.script.push_back(crash_kit::until(10min));
  scenario.outcome = [](test::Engine& engine) {
    return runs(engine) + std::to_string(rows_left(engine, "stidr")) + " left";
  };
  crash_kit::expect_the_same_after_crashes(
      scenario,
      "0: 0 of 1 by both; 4: [0,1,2] of 3 by b; 9: 3 of 3 by both; 9: 3 of 4 by last; "
      "11: [3] of 1 by b; 0 left",
      0);
}

}  // namespace
}  // namespace tenure
