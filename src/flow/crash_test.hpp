// crash_test.hpp: for tests: a process that dies before and after every write in turn, or at random
// ones, while workflows run. Each time the outcome must be the same as without a crash, and no step
// may run again whose result is in the log.
//
// TENURE_FLOW_SEEDS: how many random series of crashes are tried. A failure names its seed;
// TENURE_FLOW_SEED runs only that one.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tenure/flow_test.hpp"
#include "tests/kit/sanitized.hpp"

namespace tenure::crash_kit {

inline test::Engine* world = nullptr;  // Of the scenario that runs, for its steps.
inline std::vector<std::string> violations;

// Each step has a name of its own within its workflow.
inline void check_not_recorded(StepContext& step, const std::string& name) {
  for (const HistoryEntry& entry : world->engine().history(step.workflow())) {
    if (entry.name == name && (entry.kind == "step done" || entry.kind == "step failed")) {
      violations.push_back(step.workflow() + ": " + name + " ran again");
    }
  }
}

inline int work(StepContext& step, std::string name, int value) {
  check_not_recorded(step, name);
  return value + 1;
}
inline int flaky(StepContext& step, std::string name, int good_attempt) {
  check_not_recorded(step, name);
  if (static_cast<int>(step.attempt()) < good_attempt) throw std::runtime_error("not yet");
  return static_cast<int>(step.attempt());
}

// What happens to the engine from outside. Each action may be repeated after a crash.
using Action = std::function<void(test::Engine&)>;

inline Action start(std::string id, std::function<void(test::Engine&, std::string)> how) {
  return [=](test::Engine& engine) {
    try {
      how(engine, id);
    } catch (const Error&) {
      if (!engine.crashed()) static_cast<void>(engine.engine().run(id));  // It was started before.
    }
  };
}
inline Action signal(std::string id, std::string name, auto value, std::string message) {
  return [=](test::Engine& engine) { engine.signal(id, name, value, message); };
}
inline Action until(std::chrono::nanoseconds time) {
  return [=](test::Engine& engine) {
    const auto left = MemoryStore::virtual_start + time - engine.now();
    if (left.count() > 0) engine.advance(left);
  };
}

// The states and results of all workflows, and what they left in the store's tables of work.
inline std::string outcome(test::Engine& engine) {
  std::map<std::string, std::string> lines;
  for (const FlowInfo& info : engine.list()) {
    lines[info.id] = std::string{text_of(info.state)} + " " + info.result + info.error.message;
  }
  std::string text;
  for (const auto& [id, line] : lines) text += id + ": " + line + "\n";
  Txn txn;
  for (const char table : {'r', 't', 'i', 'a', 'h'}) {
    txn.reads.push_back(Range::prefix(std::string{reserved::flow_workflows} + table));
  }
  for (const std::vector<Entry>& left : engine.store().apply(txn).reads) {
    for (const Entry& entry : left) text += "left behind: " + entry.key + "\n";
  }
  return text;
}

struct Scenario {
  std::function<void(test::Engine&)> define;
  std::vector<Action> script;
  EngineOptions options{.partitions = 2};
  std::function<std::string(test::Engine&)> outcome = crash_kit::outcome;
};

struct Result {
  std::string text;
  std::size_t writes = 0;
  bool crashed = false;
};

// Says at which write the next process dies, and whether after it; 0: it does not die.
using NextCrash = std::function<std::pair<std::size_t, bool>()>;

inline Result run(const Scenario& scenario, const NextCrash& next_crash, std::size_t resident) {
  EngineOptions options = scenario.options;
  options.resident = resident;
  test::Engine engine{options};
  world = &engine;
  scenario.define(engine);
  const auto arm = [&] {
    const auto [write, after] = next_crash();
    if (write > 0) engine.crash_at(write, after);
  };
  Result result;
  arm();
  for (const Action& action : scenario.script) {
    for (int attempt = 0; attempt < 100; ++attempt) {
      try {
        action(engine);
      } catch (const std::exception&) {
        if (!engine.crashed()) throw;
      }
      if (!engine.crashed()) break;
      result.crashed = true;
      engine.crash();
      // A process may die while it recovers.
      while (engine.crashed()) {
        try {
          engine.recover();
          arm();
        } catch (const std::exception&) {
          if (!engine.crashed()) throw;
        }
      }
    }
  }
  result.text = scenario.outcome(engine);
  result.writes = engine.writes();
  world = nullptr;
  return result;
}

inline Result run_calm(const Scenario& scenario, std::size_t resident) {
  return run(scenario, [] { return std::pair<std::size_t, bool>{0, false}; }, resident);
}

// A crash before and after every write in turn.
inline void expect_the_same_after_crashes(const Scenario& scenario, std::string_view expected,
                                          std::size_t resident) {
  violations.clear();
  const Result calm = run_calm(scenario, resident);
  ASSERT_EQ(calm.text, expected);
  // A sanitizer need not see each of them.
  for (std::size_t write = 1; write <= calm.writes; write += kit::sanitized ? 5 : 1) {
    for (const bool after : {false, true}) {
      bool armed = false;
      const Result crashed = run(
          scenario,
          [&]() -> std::pair<std::size_t, bool> {
            if (std::exchange(armed, true)) return {0, false};
            return {write, after};
          },
          resident);
      ASSERT_EQ(crashed.text, expected) << (after ? "after" : "before") << " write " << write;
      // Messages that come together are one write: another run may make fewer of them.
      ASSERT_TRUE(crashed.crashed || crashed.writes < write) << write;
    }
  }
  EXPECT_EQ(violations, std::vector<std::string>{});
}

inline std::uint64_t number_of(const char* variable, std::uint64_t otherwise) {
  const char* const text = std::getenv(variable);  // NOLINT(concurrency-mt-unsafe)
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

// As many crashes as it takes, also during recoveries.
inline void expect_the_same_after_many_crashes(const Scenario& scenario,
                                               std::string_view expected) {
  violations.clear();
  const std::uint64_t only = number_of("TENURE_FLOW_SEED", 0);
  const std::uint64_t last = only > 0 ? only : number_of("TENURE_FLOW_SEEDS", 20);
  for (std::uint64_t seed = only > 0 ? only : 1; seed <= last; ++seed) {
    std::mt19937_64 random{seed};
    const Result crashed = run(
        scenario,
        [&]() -> std::pair<std::size_t, bool> { return {5 + (random() % 60), random() % 2 == 0}; },
        seed % 2 == 0 ? 0 : 1024);
    ASSERT_EQ(crashed.text, expected) << "TENURE_FLOW_SEED=" << seed;
    ASSERT_EQ(violations, std::vector<std::string>{}) << "TENURE_FLOW_SEED=" << seed;
  }
}

}  // namespace tenure::crash_kit
