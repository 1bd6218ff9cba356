// At most two imports of one customer at a time: the limit is part of the definition. A start above
// it is rejected; the place is free again in the same transaction as the end of a run, and a crash
// does not lose it.
#include <chrono>
#include <iostream>
#include <string>

#include "tenure/flow_test.hpp"

namespace {

using namespace std::chrono_literals;

tenure::Flow<std::string> import_data(tenure::Context& ctx, std::string customer,
                                      std::string file) {
  co_await ctx.sleep(1h);
  co_return customer + " imported " + file;
}

void start(tenure::test::Engine& engine, const std::string& customer, const std::string& file) {
  try {
    engine.start({.id = file}, "import", customer, file);
    std::cout << file << " started\n";
  } catch (const tenure::ConcurrencyLimit& limit) {
    std::cout << file << " rejected: " << limit.type() << " of " << limit.partition()
              << " is limited to " << limit.limit() << '\n';
  }
}

}  // namespace

int main() {
  tenure::test::Engine engine;
  const auto by_customer = [](const std::string& customer, const std::string& /*file*/) {
    return customer;
  };
  engine.define("import", import_data, {.concurrency = {.max = 2, .key = by_customer}});
  start(engine, "ann", "a1");
  start(engine, "ann", "a2");
  start(engine, "ann", "a3");
  start(engine, "bob", "b1");
  std::cout << "the process dies\n";
  engine.crash();
  engine.recover();
  start(engine, "ann", "a3");
  engine.advance(1h);
  std::cout << tenure::test::Run{engine, "a1"}.result<std::string>() << '\n';
  start(engine, "ann", "a3");
}
