// For flow_test.py: an engine with workflows for `tenure flow` to look at.
//
//   flow_worker STORE    prints "ready" once the store is there, then reads lines:
//                                       start ID [ITEM]     prints nothing
//                                       queue ID            the same; one runs, others queue
//                                       nap ID              the same; sleeps for a day at its end
//                                       wait ID             prints "ID STATE RESULT"
//                                       replay FILE         prints "fits", or the difference
//
// It goes on with what a worker before left, and ends with its input.
//
//   flow_worker FILE.json...     replays histories; FLOW_WORKER_STEP: the name of the step
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <iterator>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>

#include "tenure/flow.hpp"
#include "tenure/flow_replay.hpp"

namespace {

std::string reserve(std::string item) {
  if (item == "nothing") throw std::runtime_error("there is no such item");
  return "shelf 7";
}

// Holds the warehouse until somebody approves.
tenure::Flow<std::string> order(tenure::Context& ctx, std::string item) {
  const char* const name = std::getenv("FLOW_WORKER_STEP");  // NOLINT(concurrency-mt-unsafe)
  tenure::Step step{.name = name == nullptr ? "reserve" : name};
  step.retry.max_attempts = 2;
  step.retry.base = std::chrono::milliseconds{1};
  const std::string shelf = co_await ctx.run(step, reserve, item);
  co_await ctx.lock(tenure::Path::of("warehouse"));  // Until it ends.
  const std::string who = co_await ctx.wait_signal<std::string>("approve");
  co_return who + " approved " + item + " of " + shelf;
}

tenure::Flow<> nap(tenure::Context& ctx) {
  co_await ctx.run("reserve", reserve, "bed");
  co_await ctx.sleep(std::chrono::milliseconds{20});
  co_await ctx.sleep(std::chrono::hours{24});
}

tenure::Flow<> alone(tenure::Context& ctx) { co_await ctx.wait_signal<int>("go"); }

void define(tenure::Engine& engine) {
  engine.define("order", order);
  engine.define("nap", nap);
  engine.define("alone", alone, {.concurrency = {.max = 1, .queue = 10}});
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1 && std::string_view{argv[1]}.ends_with(".json")) {
    tenure::Engine engine{tenure::store("memory:")};
    define(engine);
    return tenure::replay_main(engine, argc, argv);
  }
  if (argc != 2) return 2;
  tenure::Engine engine{tenure::store(argv[1])};
  define(engine);
  tenure::ScheduleOptions yearly{.id = "yearly", .cron = "0 0 1 1 *", .zone = "Europe/Berlin"};
  engine.schedule(yearly, "order", "nothing");
  engine.recover_all();
  std::cout << "ready" << std::endl;
  std::string line;
  while (std::getline(std::cin, line)) {
    std::istringstream words{line};
    std::string verb;
    std::string id;
    std::string item;
    words >> verb >> id >> item;
    if (verb == "start") {
      tenure::StartOptions options;
      options.id = id;
      options.tags["item"] = item;
      engine.start(options, "order", item);
    } else if (verb == "queue" || verb == "nap") {
      tenure::StartOptions options;
      options.id = id;
      engine.start(options, verb == "nap" ? "nap" : "alone");
    } else if (verb == "replay") {
      std::ifstream file{id};
      const std::string text{std::istreambuf_iterator<char>{file}, {}};
      const tenure::ReplayReport report = engine.replay(tenure::FlowHistory::parse(text));
      if (report.fits()) {
        std::cout << "fits" << std::endl;
      } else {
        std::cout << "entry " << report.order() << ": " << report.difference() << std::endl;
      }
    } else {
      std::string outcome;
      try {
        outcome = engine.run(id).result<std::string>();
      } catch (const tenure::WorkflowFailed& error) {
        outcome = error.info().message;
      }
      std::cout << id << ' ' << text_of(engine.run(id).info().state) << ' ' << outcome << std::endl;
    }
  }
}
