// A batch collector: orders of many callers are shipped together, when three are there or ten
// seconds after the first. An order that is sent twice is shipped once.
#include <chrono>
#include <iostream>
#include <map>
#include <string>
#include <vector>

#include "tenure/flow_test.hpp"

namespace {

using namespace std::chrono_literals;

std::string load_truck(std::vector<std::string> orders) {
  std::string load;
  for (const std::string& order : orders) load += (load.empty() ? "" : " ") + order;
  return load;
}

tenure::Flow<std::string> ship(tenure::Context& ctx, std::vector<std::string> orders) {
  co_return co_await ctx.run("load truck", load_truck, orders);
}

void order(tenure::test::Engine& engine, const std::string& id) {
  engine.engine().batch({.key = "warehouse 1", .max_items = 3, .max_wait = 10s, .item_id = id},
                        "ship", id);
  engine.settle();
}

}  // namespace

int main() {
  tenure::test::Engine engine;
  engine.define("ship", ship);
  const tenure::Instant start = engine.now();

  for (const std::string id : {"A", "B", "B", "C", "D"}) {
    order(engine, id);
    engine.advance(1s);
  }
  engine.crash();  // What is collected survives.
  engine.recover();
  order(engine, "D");  // Its sender did not hear whether it arrived.
  engine.advance(1min);

  std::map<tenure::Instant, tenure::FlowInfo> runs;
  for (const tenure::FlowInfo& info : engine.list()) runs[info.created] = info;
  for (const auto& [created, info] : runs) {
    std::cout << "after " << (created - start) / 1s << " s: " << info.result << ", "
              << info.tags.at("items") << " orders of " << info.tags.at("batch") << '\n';
  }
}
