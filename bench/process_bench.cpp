// Commands that do nothing, two at a time, through two reused guardians. Rivals: ninja and GNU
// make, which do not clean up after a command.
#include <poll.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "bench/build_tools.hpp"
#include "bench/program.hpp"
#include "bench/ratio.hpp"
#include "process/guardian.hpp"
#include "process/process_tree.hpp"
#include "tests/kit/process.hpp"
#include "tests/kit/scratch.hpp"

namespace tenure::bench {
namespace {

using process::Command;
using process::Event;
using process::Guardian;

void run_all(std::vector<Guardian>& guardians, const Command& command, std::size_t count) {
  std::size_t started = 0;
  std::size_t ended = 0;
  std::vector<pollfd> waits;
  for (Guardian& guardian : guardians) {
    waits.push_back(process::readable(guardian.descriptor()));
    guardian.launch(command);
    ++started;
  }
  while (ended < count) {
    ::poll(waits.data(), waits.size(), -1);
    for (std::size_t slot = 0; slot < guardians.size(); ++slot) {
      if (waits[slot].revents == 0) continue;
      const std::optional<Event> event = guardians[slot].next();
      if (!event || event->kind == Event::Kind::started) continue;
      if (event->kind != Event::Kind::exited || event->left || event->value != 0) {
        throw std::runtime_error("a command failed");
      }
      ++ended;
      if (started == count) continue;
      guardians[slot].launch(command);
      ++started;
    }
  }
}

void ask_commands(Report& report) {
  const std::size_t count = report.effort().of(300, 20);
  process::adopt_orphans();
  std::vector<Guardian> guardians;
  for (int slot = 0; slot < 2; ++slot) guardians.push_back(Guardian::start());
  const Command shell = Command::shell("true");
  const Command direct{.words = {"true"}};

  const kit::TemporaryDirectory directory;
  CommandRace race{report.effort(), directory.path(), count};
  race.run(
      report.effort().of(25, 1), [&] { run_all(guardians, shell, count); },
      [&] { run_all(guardians, direct, count); });
  race.print(report, at_least(0.95), {});
}

}  // namespace
}  // namespace tenure::bench

int main(int argc, char** argv) {
  using namespace tenure::bench;
  static constexpr std::array questions = {
      Question{.name = "commands",
               .text = "commands per second through two reused guardians; what do they cost?",
               .ask = &ask_commands,
               .threads = Threads::never},
  };
  return run_program(argc, argv, questions);
}
