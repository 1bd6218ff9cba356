// A person decides, by a signal; after two days without an answer the request is declined. The wait
// costs a row of the store. A signal that is sent twice with one message id counts once, and a
// signal may start the workflow that it is for.
#include <chrono>
#include <iostream>
#include <optional>
#include <string>

#include "tenure/flow_test.hpp"

namespace {

using std::chrono::hours;

void mail(std::string to, std::string text) {
  std::cout << "  mail to " << to << ": " << text << '\n';
}

tenure::Flow<std::string> expense(tenure::Context& ctx, std::string who) {
  std::string state = "waits for the boss";
  const tenure::QueryHandler handler = ctx.on_query("state", [&state] { return state; });
  const auto amount = co_await ctx.wait_signal<int>("amount");
  co_await ctx.run("ask", mail, "boss", who + " asks for " + std::to_string(amount));
  const auto answer = co_await ctx.wait_signal<std::string>("decision", hours{48});
  state = answer.value_or("no answer in time");
  co_await ctx.run("tell", mail, who, state);
  co_return state;
}

}  // namespace

int main() {
  tenure::test::Engine engine;
  engine.define("expense", expense);
  const auto submit = [&engine](const std::string& who, int amount) {
    std::cout << who << '\n';
    for (int click = 0; click < 2; ++click) {  // An impatient user.
      engine.start_or_signal({.id = who}, {"amount", amount, "form-1"}, "expense", who);
    }
    engine.advance(hours{24});
    std::cout << "  state: " << engine.engine().query<std::string>(who, "state") << '\n';
  };
  submit("ann", 100);
  engine.crash();
  engine.recover();
  engine.signal("ann", "decision", std::string{"approved"});
  submit("bob", 9000);
  engine.advance(hours{24});
  for (const std::string who : {"ann", "bob"}) {
    std::cout << who << ": " << tenure::test::Run{engine, who}.result<std::string>() << '\n';
  }
}
