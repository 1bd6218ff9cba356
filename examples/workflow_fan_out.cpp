// A thousand steps at once. Each result is stored when it is there; after a crash only the steps
// without a result run again.
#include <chrono>
#include <iostream>
#include <numeric>
#include <vector>

#include "tenure/flow_test.hpp"

namespace {

using namespace std::chrono_literals;

int squared(int number) { return number * number; }

tenure::Flow<long> sum_of_squares(tenure::Context& ctx, int count) {
  const auto one = [](int number) {
    return [number](tenure::Context& c) -> tenure::Flow<int> {
      co_return co_await c.run("square", squared, number);
    };
  };
  std::vector<decltype(one(0))> branches;
  for (int number = 1; number <= count; ++number) branches.push_back(one(number));
  const std::vector<int> squares = co_await ctx.all(branches);
  co_return std::accumulate(squares.begin(), squares.end(), 0L);
}

}  // namespace

int main() {
  tenure::test::Engine engine;
  engine.define("sum", sum_of_squares);
  int calls = 0;
  engine.mock("square", [&calls](int number) {
    ++calls;
    return squared(number);
  });
  engine.crash_at(10, true);
  try {
    engine.start({.id = "sum"}, "sum", 1000);
  } catch (
      const tenure::Error&) {  // NOLINT(bugprone-empty-catch): the process died, as it was told.
  }
  std::cout << "the process died: " << (engine.crashed() ? "yes" : "no") << '\n';
  engine.recover();
  const tenure::test::Run run{engine, "sum"};
  std::cout << "sum: " << run.result<long>() << '\n'
            << "results stored: " << engine.history("sum").size() << '\n'
            << "more calls than steps: "
            << (calls > 1000 ? "some, of steps without a result" : "no") << '\n';
}
