// For flow_test.py: an engine with workflows for `tenure flow` to look at.
//
//   flow_worker STORE    prints "ready" once the store is there, then reads lines:
//                                       start ID [ITEM]     prints nothing
//                                       queue ID            the same; one runs, others queue
//                                       wait ID             prints "ID STATE RESULT"
//                                       replay FILE         prints "fits", or the difference
//
// It goes on with what a worker before left, and ends with its input.
#include <chrono>
#include <fstream>
#include <iostream>
#include <iterator>
#include <sstream>
#include <stdexcept>
#include <string>

#include "tenure/flow.hpp"

namespace {

std::string reserve(std::string item) {
  if (item == "nothing") throw std::runtime_error("there is no such item");
  return "shelf 7";
}

// Holds the warehouse until somebody approves.
tenure::Flow<std::string> order(tenure::Context& ctx, std::string item) {
  tenure::Step step{.name = "reserve"};
  step.retry.max_attempts = 2;
  step.retry.base = std::chrono::milliseconds{1};
  const std::string shelf = co_await ctx.run(step, reserve, item);
  co_await ctx.lock(tenure::Path::of("warehouse"));  // Until it ends.
  const std::string who = co_await ctx.wait_signal<std::string>("approve");
  co_return who + " approved " + item + " of " + shelf;
}

tenure::Flow<> alone(tenure::Context& ctx) { co_await ctx.wait_signal<int>("go"); }

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  tenure::Engine engine{tenure::store(argv[1])};
  engine.define("order", order);
  engine.define("alone", alone, {.concurrency = {.max = 1, .queue = 10}});
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
    } else if (verb == "queue") {
      tenure::StartOptions options;
      options.id = id;
      engine.start(options, "alone");
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
