// Signals to one workflow whose engine is killed again and again: none is lost, none counts twice.
//
// TENURE_FLOW_SIGNALS: how many are sent; 1,000 by default.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "flow/queries.hpp"
#include "tenure/flow.hpp"
#include "tests/kit/process.hpp"
#include "tests/kit/scratch.hpp"

namespace tenure {
namespace {

// How many of the numbers below `wanted` did not come exactly once.
Flow<int> collect(Context& ctx, int wanted) {
  std::vector<int> seen(static_cast<std::size_t>(wanted));
  for (int i = 0; i < wanted; ++i) {
    const int number = co_await ctx.wait_signal<int>("number");
    ++seen.at(static_cast<std::size_t>(number));
  }
  int wrong = 0;
  for (const int times : seen) wrong += times == 1 ? 0 : 1;
  co_return wrong;
}

void serve(const std::string& where, int wanted, const kit::Line& line) {
  Engine engine{store(where), {.partitions = 4}};
  engine.define("collect", collect);
  engine.recover_all();
  const Run run = engine.start({.id = "all", .idempotency_key = "all"}, "collect", wanted);
  line.say("ready");
  while (line.hear()) line.say(std::to_string(run.result<int>()) + " wrong");
}

TEST(FlowSignals, AreNeitherLostNorDoubledWhenEnginesAreKilled) {
  const char* const text = std::getenv("TENURE_FLOW_SIGNALS");  // NOLINT(concurrency-mt-unsafe)
  const int wanted = text == nullptr ? 1000 : std::atoi(text);  // NOLINT(cert-err34-c)
  const kit::TemporaryDirectory directory;
  const std::string where = "sqlite:" + (directory / "flow.db").string();
  const auto start = [&] {
    auto process = std::make_unique<kit::Process>(
        [where, wanted](const kit::Line& line) { serve(where, wanted, line); });
    EXPECT_EQ(process->hear(), "ready");
    return process;
  };
  std::unique_ptr<kit::Process> engine = start();
  const std::shared_ptr<Store> from_outside = store(where);
  const flow::Queries queries{*from_outside, 4};
  const int kills = 8;
  for (int number = 0; number < wanted; ++number) {
    // Each one is sent twice: the sender did not get the answer.
    for (int time = 0; time < 2; ++time) {
      queries.send("all",
                   {.kind = flow::Message::Kind::signal,
                    .workflow = {},
                    .name = "number",
                    .value = std::to_string(number)},
                   std::to_string(number), Durability::relaxed);
    }
    if (number % (wanted / kills) == wanted / kills / 2) {
      engine->kill();
      engine = start();
    }
  }
  EXPECT_EQ(engine->ask("end"), "0 wrong");
}

}  // namespace
}  // namespace tenure
