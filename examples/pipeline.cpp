// Release packages in the order of their dependencies. One registry takes one upload at a time, one
// upload fails at first, and one package is broken.
#include <tenure/pipeline.hpp>
#include <tenure/tenure.hpp>

#include <chrono>
#include <iostream>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

const tenure::Name registry{"registry"};

void publish(const std::string& package, const tenure::TaskContext& context) {
  if (package == "parser" && context.attempt() == 0) throw std::runtime_error("503, try again");
  if (package == "plugin") throw std::runtime_error("version 2.1.0 exists already");
  std::cout << "published " << package << '\n';
}

}  // namespace

int main() {
  const tenure::Space space = tenure::open("local:");
  tenure::Pipeline pipeline{{.concurrency = 4}};

  const auto add = [&](const std::string& package, const std::vector<std::string>& needs) {
    pipeline.add(
        package, [package](const tenure::TaskContext& context) { publish(package, context); },
        {.needs = needs,
         .timeout = std::chrono::minutes{5},
         .retry = {.max = package == "parser" ? 3U : 0U, .base = std::chrono::milliseconds{10}},
         .claims = {registry("npm")},
         .locker = space});
  };
  add("core", {});
  add("parser", {"core"});
  add("plugin", {"parser"});
  add("app", {"plugin"});

  const tenure::PipelineResult result = pipeline.run();
  for (const tenure::TaskId task : result.tasks(tenure::TaskEnd::failed)) {
    std::cout << "failed: " << result.name(task) << '\n';
  }
  for (const tenure::TaskId task : result.tasks(tenure::TaskEnd::blocked)) {
    std::cout << "blocked: " << result.name(task) << ", because of "
              << result.name(*result.cause(task)) << '\n';
  }
}
