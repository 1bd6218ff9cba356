// Transfers on one account exclude each other, whatever process they run in, by a mutex in a slot
// that all runs of the type share. A run that waits sleeps durably; here the test engine's clock
// passes at once, and its process dies in between.
#include <chrono>
#include <iostream>
#include <string>

#include "tenure/flow_test.hpp"

namespace {

using namespace std::chrono_literals;

int move_money(std::string run, int amount) {
  std::cout << run << " moves " << amount << '\n';
  return amount;
}

tenure::Flow<int> transfer(tenure::Context& ctx, int amount) {
  const tenure::DurableMutex mutex{{.lease = 60s}};
  const auto slot = ctx.state.workflow<tenure::LockRecord>("account-42:lock");
  while (true) {
    const tenure::LockCall call{.holder = ctx.id(), .now = ctx.now()};
    const tenure::Acquisition answer = co_await mutex.try_acquire(slot, call);
    if (answer.acquired) break;
    co_await ctx.sleep(5s);
  }
  const int moved = co_await ctx.run("move", move_money, ctx.id(), amount);
  co_await ctx.sleep(2s);  // The critical section: at most one transfer is here.
  const tenure::LockCall call{.holder = ctx.id(), .now = ctx.now()};
  co_await mutex.release(slot, call);
  co_return moved;
}

}  // namespace

int main() {
  tenure::test::Engine engine;
  engine.define("transfer", transfer);
  const auto first = engine.start({.id = "run-1"}, "transfer", 100);
  const auto second = engine.start({.id = "run-2"}, "transfer", 50);
  std::cout << "the process dies\n";
  engine.crash();
  engine.recover();
  engine.advance(1min);
  std::cout << "moved " << first.result<int>() << " and " << second.result<int>() << '\n';
}
