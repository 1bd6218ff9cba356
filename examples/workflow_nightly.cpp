// A nightly reconciliation must not overlap with itself: one run of the type at a time. The run of
// the next night is rejected while the last one is still going, also after a crash.
#include <chrono>
#include <iostream>
#include <string>

#include "tenure/flow_test.hpp"

namespace {

using namespace std::chrono_literals;

int reconcile(int night) { return 100 * night; }

tenure::Flow<int> nightly(tenure::Context& ctx, int night, int hours) {
  const int rows = co_await ctx.run("reconcile", reconcile, night);
  co_await ctx.sleep(std::chrono::hours{hours});
  co_return rows;
}

void start(tenure::test::Engine& engine, int night, int hours) {
  const std::string id = "night-" + std::to_string(night);
  try {
    engine.start({.id = id}, "nightly-reconciliation", night, hours);
    std::cout << id << " started\n";
  } catch (const tenure::ConcurrencyLimit&) {
    std::cout << id << " skipped: the last run is still going\n";
  }
}

}  // namespace

int main() {
  tenure::test::Engine engine;
  engine.define("nightly-reconciliation", nightly, {.concurrency = {.max = 1}});
  start(engine, 1, 30);  // Takes longer than a day.
  engine.advance(24h);
  engine.crash();
  engine.recover();
  start(engine, 2, 2);
  engine.advance(24h);
  start(engine, 3, 2);
  engine.advance(24h);
  for (const auto& info : engine.list()) std::cout << info.id << ": " << info.result << '\n';
}
