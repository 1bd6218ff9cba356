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

// Nanoseconds per command.
template <class Work>
double timed(std::size_t count, Work work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  const std::chrono::duration<double, std::nano> time = std::chrono::steady_clock::now() - start;
  return time.count() / static_cast<double>(count);
}

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

// Files that order `count` times `true`: none of the outputs is ever created.
void write_rivals(const std::filesystem::path& directory, std::size_t count) {
  std::ofstream ninja{directory / "build.ninja"};
  std::ofstream make{directory / "Makefile"};
  ninja << "rule t\n  command = true\n";
  std::string all;
  for (std::size_t i = 0; i < count; ++i) {
    ninja << "build o" << i << ": t\n";
    all.append(" o").append(std::to_string(i));
  }
  make << "all:" << all << "\n.PHONY: all" << all << '\n' << all << ":\n\t@true;\n";
}

Samples per_second(const Samples& nanoseconds) {
  Samples out;
  for (const double one : nanoseconds) out.push_back(1e9 / one);
  return out;
}

void ask_commands(Report& report) {
  const std::size_t count = report.effort().of(300, 20);
  process::adopt_orphans();
  std::vector<Guardian> guardians;
  for (int slot = 0; slot < 2; ++slot) guardians.push_back(Guardian::start());
  const kit::TemporaryDirectory directory;
  write_rivals(directory.path(), count);
  const std::string where = directory.path();
  Command shell = Command::shell("true");
  Command direct{.words = {"true"}};

  Race race{report.effort()};
  const auto ours =
      race.add_round([&] { return timed(count, [&] { run_all(guardians, shell, count); }); });
  const auto without_shell =
      race.add_round([&] { return timed(count, [&] { run_all(guardians, direct, count); }); });
  const auto ninja = race.add_round(
      [&] { return timed(count, [&] { kit::run({"ninja", "-C", where, "-j2", "--quiet"}); }); });
  const auto make = race.add_round(
      [&] { return timed(count, [&] { kit::run({"make", "-s", "-C", where, "-j2"}); }); });
  race.run(report.effort().of(25, 1));

  const Samples own = per_second(race[ours]);
  const Samples of_ninja = per_second(race[ninja]);
  report.compare("sh -c true", {"", own, "/s"}, {"ninja -j2", of_ninja, "/s"}, at_least(0.95));
  report.compare("sh -c true", {"", own, "/s"}, {"make -j2", per_second(race[make]), "/s"});
  report.compare("true, without a shell", {"", per_second(race[without_shell]), "/s"},
                 {"ninja -j2", of_ninja, "/s"});
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
