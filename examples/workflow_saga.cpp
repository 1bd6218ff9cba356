// A saga: each step that succeeded has one that undoes it. When a later step fails, or the workflow
// is cancelled, what was done is undone in reverse order, across any crash. Undoing is shielded: a
// cancellation does not reach it.
#include <chrono>
#include <exception>
#include <iostream>
#include <stdexcept>
#include <string>
#include <vector>

#include "tenure/flow_test.hpp"

namespace {

using namespace std::chrono_literals;

void book(std::string what) {
  if (what == "flight to Oslo") throw std::runtime_error("no seat is left");
  std::cout << "  booked " << what << '\n';
}
void cancel_booking(std::string what) { std::cout << "  gave back " << what << '\n'; }

tenure::Flow<> undo(tenure::Context& ctx, std::vector<std::string> done) {
  for (auto what = done.rbegin(); what != done.rend(); ++what) {
    const tenure::Step step{.name = "cancel " + *what, .retry = {.max_attempts = 100}};
    co_await ctx.run(step, cancel_booking, *what);
  }
}

tenure::Flow<std::string> trip(tenure::Context& ctx, std::string city) {
  const std::vector<std::string> parts{"car in " + city, "hotel in " + city, "flight to " + city};
  std::vector<std::string> done;
  std::exception_ptr error;
  try {
    for (const std::string& what : parts) {
      co_await ctx.run("book " + what, book, what);
      done.push_back(what);
      co_await ctx.sleep(1min);
    }
  } catch (...) {  // An error, or Cancelled.
    error = std::current_exception();
  }
  if (!error) co_return "booked";
  const auto body = [&done](tenure::Context& c) { return undo(c, done); };
  co_await ctx.shielded(body);
  std::rethrow_exception(error);
}

}  // namespace

int main() {
  tenure::test::Engine engine;
  engine.define("trip", trip);
  for (const std::string city : {"Rome", "Oslo", "Kyiv"}) {
    std::cout << city << '\n';
    const tenure::test::Run run = engine.start({.id = city}, "trip", city);
    engine.advance(90s);
    std::cout << "  the process dies\n";
    engine.crash();
    engine.recover();
    if (city == "Kyiv") engine.cancel(city);
    engine.advance(1h);
    const tenure::FlowInfo info = run.info();
    std::cout << "  " << text_of(info.state) << ' ' << info.result << info.error.message << '\n';
  }
}
