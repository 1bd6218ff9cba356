// Tasks that are commands and do nothing, two at a time, with their state in a SQLite file and a
// file for the output of each. Rivals: ninja and GNU make, which keep none of that.
#include <chrono>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "bench/build_tools.hpp"
#include "bench/pipeline_questions.hpp"
#include "bench/ratio.hpp"
#include "pipeline/commands/command_runner.hpp"
#include "process/process_tree.hpp"
#include "tenure/store.hpp"
#include "tests/kit/process.hpp"
#include "tests/kit/scratch.hpp"

namespace tenure::bench {
namespace {

using namespace tenure::pipeline;

class Quiet final : public CommandListener {
 public:
  void started(Index /*task*/, unsigned /*attempt*/) override {}
  void ended(Index /*task*/, TaskEnd end, std::chrono::nanoseconds /*took*/,
             const std::string& why) override {
    if (end != TaskEnd::done) throw std::runtime_error("a command failed: " + why);
  }
  void retries(Index /*task*/, std::chrono::nanoseconds /*delay*/,
               const std::string& /*why*/) override {}
};

std::vector<CommandTask> tasks_of(const std::filesystem::path& logs, std::size_t count,
                                  const Invocation& what) {
  std::vector<CommandTask> out;
  for (std::size_t i = 0; i < count; ++i) {
    Task task;
    task.name = "t" + std::to_string(i);
    task.run = what;
    out.push_back({.task = std::move(task), .log = logs / ("t" + std::to_string(i) + ".log")});
  }
  return out;
}

void run_all(const std::filesystem::path& directory, std::size_t count, const Invocation& what,
             const std::shared_ptr<Store>& store) {
  std::vector<process::Guardian> guardians;
  for (int slot = 0; slot < 2; ++slot) guardians.push_back(process::Guardian::start());
  RunState state{store};
  RunInfo info;
  state.begin(info);
  // They stay until the last round is over: ext4 looks past each inode that was freed in the last
  // minute before it creates a file.
  const std::filesystem::path logs = directory / info.id;
  std::filesystem::create_directory(logs);
  Quiet quiet;
  CommandRunner runner{tasks_of(logs, count, what),
                       std::move(guardians),
                       state,
                       quiet,
                       {.directory = directory.string()}};
  Plan plan;
  for (std::size_t i = 0; i < count; ++i) plan.append({});
  std::vector<Index> roots = plan.seal([](Index) { return std::string{}; });
  Loop{plan, runner, std::move(roots), {.concurrency = 2}}.run();
  state.finish(info);
}

}  // namespace

void ask_pipeline_commands(Report& report) {
  const std::size_t count = report.effort().of(5'000, 20);
  process::adopt_orphans();
  const kit::TemporaryDirectory directory;
  const std::shared_ptr<Store> store =
      tenure::store("sqlite:" + directory.path().string() + "/state.db");
  const Invocation shell{.words = {"true"}, .shell = true};
  const Invocation direct{.words = {"true"}};

  CommandRace race{report.effort(), directory.path(), count};
  race.run(
      report.effort().of(5, 1), [&] { run_all(directory.path(), count, shell, store); },
      [&] { run_all(directory.path(), count, direct, store); });
  race.print(report, at_least(1.0), at_least(1.1));
}

}  // namespace tenure::bench
