// A search index that is rebuilt when a customer's data has changed. Changes come in bursts: one
// rebuild, three seconds after the last change, is enough.
#include <chrono>
#include <iostream>
#include <map>
#include <string>

#include "tenure/flow_test.hpp"

namespace {

using namespace std::chrono_literals;

int rebuild(int version) { return version; }

tenure::Flow<int> reindex(tenure::Context& ctx, std::string /*customer*/, int version) {
  co_return co_await ctx.run("rebuild", rebuild, version);
}

}  // namespace

int main() {
  tenure::test::Engine engine;
  engine.define("reindex", reindex);
  const tenure::Instant start = engine.now();

  for (int version = 1; version <= 5; ++version) {
    for (const std::string customer : {"ann", "bob"}) {
      if (customer == "bob" && version > 2) continue;
      // In the store when the call returns; any engine of the store starts the workflow.
      engine.engine().debounce({.key = customer, .wait = 3s, .max_wait = 1min}, "reindex", customer,
                               version);
    }
    engine.advance(1s);
  }
  engine.crash();  // The windows survive.
  engine.recover();
  engine.advance(1min);

  std::map<tenure::Instant, tenure::FlowInfo> runs;
  for (const tenure::FlowInfo& info : engine.list()) runs[info.created] = info;
  for (const auto& [created, info] : runs) {
    std::cout << "after " << (created - start) / 1s << " s: " << info.tags.at("debounce")
              << " at version " << info.result << ", for " << info.tags.at("calls") << " changes\n";
  }
}
