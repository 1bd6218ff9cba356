// What is built on the engine (children, continue-as-new, updates, queues, rates, schedules,
// debounce, batches, patches, a bounded history), all of it at once: the process dies before and
// after every write in turn, and in random series. The tests of each feature have more cases of it.
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

#include "flow/crash_test.hpp"
#include "tenure/flow_test.hpp"
#include "tests/kit/message.hpp"

namespace tenure {
namespace {

using namespace std::chrono_literals;
using namespace crash_kit;
using kit::contains;

Flow<int> leaf(Context& ctx, int value) {
  co_await ctx.sleep(1min);
  co_return co_await ctx.run("leaf", work, "leaf", value);
}

Flow<int> parent(Context& ctx) {
  const ChildOptions abandoned{.id = "abandoned", .on_parent_close = ParentClose::abandon};
  co_await ctx.start_child(abandoned, "leaf", 10);
  const auto [a, b] =
      co_await ctx.all([](Context& c) -> Flow<int> { co_return co_await c.child<int>("leaf", 1); },
                       [](Context& c) -> Flow<int> { co_return co_await c.child<int>("leaf", 2); });
  co_return a + b;
}

// Takes one number in each run.
Flow<int> sums(Context& ctx, int sum, int left) {
  const std::string name = "n" + std::to_string(left);
  sum += co_await ctx.wait_signal<int>("number");
  sum = co_await ctx.run(name, work, name, sum);
  if (left > 1) co_await ctx.continue_as_new(sum, left - 1);
  co_return sum;
}

Flow<int> stock(Context& ctx) {
  int left = 10;
  bool closed = false;
  const UpdateHandler take = ctx.on_update(
      "take", [&](int count) { return left -= count; },
      [&](int count) {
        if (count > left) throw std::invalid_argument("too many");
      });
  const UpdateHandler slow = ctx.on_update("slow", [&](Context& inside, int count) -> Flow<int> {
    co_await inside.sleep(10min);
    left += co_await inside.run("slow", work, "slow", count);
    co_return left;
  });
  const UpdateHandler close = ctx.on_update("close", [&] { closed = true; });
  co_await ctx.wait_until([&] { return closed; });
  co_return left;
}

Flow<int> job(Context& ctx, int minutes) {
  co_await ctx.sleep(std::chrono::minutes{minutes});
  co_return co_await ctx.run("job", work, "job", minutes);
}

Flow<int> patched(Context& ctx) {
  int value = co_await ctx.run("first", work, "first", 0);
  co_await ctx.sleep(1min);
  if (ctx.patched("second")) value = co_await ctx.run("second", work, "second", value);
  co_return value;
}

Flow<int> endless(Context& ctx) {
  co_await ctx.lock(Path::of("endless"));  // Until it ends.
  for (int i = 0;; ++i) {
    const std::string name = "e" + std::to_string(i);
    co_await ctx.run(name, work, name, i);
    co_await ctx.sleep(1s);
  }
}

Flow<int> ends(Context& ctx, int value) { co_return co_await ctx.run("ends", work, "ends", value); }
Flow<std::size_t> ship(Context& ctx, std::vector<int> items) {
  co_await ctx.sleep(1s);
  co_return items.size();
}

void define(test::Engine& engine) {
  engine.define("leaf", leaf);
  engine.define("parent", parent);
  engine.define("sums", sums);
  engine.define("stock", stock);
  engine.define(
      "job", job,
      {.concurrency = {.max = 1, .queue = 5}, .rate = {.max = 2, .per = 1min, .wait = 1h}});
  engine.define("patched", patched);
  engine.define("endless", endless);
  engine.define("ends", ends);
  engine.define("ship", ship);
}

Action plain(const std::string& id, const std::string& type) {
  return start(id, [=](test::Engine& e, const std::string& name) { e.start({.id = name}, type); });
}
Action queued(const std::string& id, int minutes) {
  return start(id, [=](test::Engine& e, const std::string& name) {
    e.start({.id = name, .idempotency_key = name}, "job", minutes);
  });
}
Action number(int value) {
  return [=](test::Engine& engine) {
    try {
      engine.start_or_signal({.id = "sums"}, {"number", value, std::to_string(value)}, "sums", 0,
                             3);
    } catch (const WorkflowEnded&) {  // Before the crash.
    }
  };
}
Action update(const std::string& id, const std::string& name, auto... arguments) {
  return [=](test::Engine& engine) {
    try {
      static_cast<void>(engine.send_update({.id = id}, "stock", name, arguments...));
    } catch (const WorkflowEnded&) {  // Before the crash.
    }
  };
}
Action with_engine(std::function<void(tenure::Engine&)> call) {
  return [=](test::Engine& engine) {
    call(engine.engine());
    engine.settle();
  };
}

std::vector<Action> script() {
  std::vector<Action> all{plain("parent", "parent"),   plain("stock", "stock"),
                          plain("patched", "patched"), plain("endless", "endless"),
                          queued("job-1", 5),          queued("job-2", 5),
                          queued("job-3", 1),          number(1),
                          update("u1", "take", 3),     update("u2", "take", 20),
                          update("u3", "slow", 5),     number(2)};
  all.push_back(with_engine([](tenure::Engine& e) {
    e.schedule({.id = "tick", .every = 10min, .overlap = Overlap::buffer_one}, "job", 12);
  }));
  for (int i = 0; i < 5; ++i) {
    all.push_back(with_engine([i](tenure::Engine& e) {
      e.debounce({.key = "d", .wait = 3s, .call_id = std::to_string(i), .remember = 1min}, "ends",
                 i);
    }));
    all.push_back(with_engine([i](tenure::Engine& e) {
      e.batch({.key = "b",
               .max_items = 3,
               .max_wait = 1min,
               .item_id = std::to_string(i),
               .remember = 1min},
              "ship", i);
    }));
    all.push_back(until(1s * (i + 1)));
  }
  all.push_back(number(3));
  all.push_back(until(35min));
  all.push_back(with_engine([](tenure::Engine& e) {
    try {
      e.remove_schedule("tick");
    } catch (const NoSuchSchedule&) {  // Before the crash.
    }
  }));
  all.push_back(update("u4", "take", 1));
  all.push_back(update("u5", "close"));
  all.push_back(until(5h));
  return all;
}

// Ids of debounced and batched runs are random: their tags tell them apart.
std::string outcome(test::Engine& engine) {
  std::map<std::string, std::string> lines;
  for (const FlowInfo& info : engine.list()) {
    std::string id = info.id;
    if (info.tags.contains("batch")) id = "batch of " + info.tags.at("items");
    if (info.tags.contains("debounce")) id = "debounce of " + info.tags.at("calls");
    lines[id] += std::string{text_of(info.state)} + " " + info.result + info.error.type + "\n";
  }
  std::string text;
  for (const auto& [id, line] : lines) text += id + ": " + line;
  Txn txn;
  for (const char table : {'r', 't', 'i', 'a', 'h', 'q', 'e', 'f', 's', 'd'}) {
    txn.reads.push_back(Range::prefix(std::string{reserved::flow_workflows} + table));
  }
  for (const std::vector<Entry>& left : engine.store().apply(txn).reads) {
    for (const Entry& entry : left) text += "left behind: " + entry.key + "\n";
  }
  return text;
}

Scenario features() {
  return {.define = define,
          .script = script(),
          .options = {.partitions = 2, .history_limit = 30},
          .outcome = outcome};
}

constexpr std::string_view expected =
    "abandoned: completed 11\n"
    "batch of 2: completed 2\n"
    "batch of 3: completed 3\n"
    "debounce of 5: completed 5\n"
    "endless: failed history-limit\n"
    "job-1: completed 6\n"
    "job-2: completed 6\n"
    "job-3: completed 2\n"
    "parent: completed 5\n"
    "parent/1.1: completed 2\n"
    "parent/2.1: completed 3\n"
    "patched: completed 2\n"
    "stock: completed 12\n"
    "sums: completed 9\n"
    "tick@2000-01-01T00:10:00Z: completed 13\n"
    "tick@2000-01-01T00:20:00Z: completed 13\n"
    "tick@2000-01-01T00:30:00Z: completed 13\n";

TEST(FlowFeaturesCrash, ChangesNothingBeforeAndAfterEveryWrite) {
  for (const std::size_t resident : {0U, 1024U}) {
    expect_the_same_after_crashes(features(), expected, resident);
  }
}

TEST(FlowFeaturesCrash, ChangesNothingHoweverManyThereAre) {
  expect_the_same_after_many_crashes(features(), expected);
}

}  // namespace
}  // namespace tenure
