#include "demo_pipeline.hpp"

#include <fmt/core.h>

#include <cstdio>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>

#include "demo_process.hpp"
#include "scratch.hpp"

namespace tenure::cli {
namespace {

// Two chains that meet. Each task takes long enough to be killed in the middle of.
constexpr std::string_view demo_manifest = R"(jobs = 2
[defaults]
timeout = "10s"
[task.build-api]
run = "sleep 0.05"
[task.build-web]
run = "sleep 0.1"
[task.test-api]
needs = ["build-api"]
run = "sleep 0.1"
[task.test-web]
needs = ["build-web"]
run = "sleep 0.1"
[task.release]
needs = ["test-api", "test-web"]
run = "sleep 0.02"
)";

void print_line(const std::string& line) {
  fmt::print("  {}\n", line);
  (void)std::fflush(stdout);
}

}  // namespace

void show_pipeline(const Terminal& terminal) {
  fmt::print("\n{}\n{}\n",
             terminal.paint(Style::bold, "8. A pipeline is killed half-way, and resumed"),
             wrap("Five tasks run as commands, two at a time, each after the tasks that it needs. "
                  "After the second one is done, the run is killed. Its commands die with it; "
                  "'tenure pipeline resume' goes on and repeats nothing that was done.",
                  78, "  "));
  const Scratch scratch;
  const std::string manifest = scratch.path() + "/pipeline.toml";
  std::ofstream{manifest} << demo_manifest;
  constexpr int enough = 2;
  int done = 0;
  {
    DemoProcess run{{"pipeline", "run", manifest}, scratch.path()};
    while (const std::optional<std::string> line = run.next_line()) {
      print_line(*line);
      if (line->starts_with("done ") && ++done == enough) run.kill();
    }
  }
  print_line(terminal.paint(Style::red, "the run was killed by SIGKILL"));
  DemoProcess resumed{{"pipeline", "resume", manifest}, scratch.path()};
  while (const std::optional<std::string> line = resumed.next_line()) print_line(*line);
}

}  // namespace tenure::cli
