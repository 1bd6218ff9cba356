// build_tools.hpp: ninja and GNU make as rivals of our commands: the same number of `true`, two at
// a time.
#pragma once

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

#include "bench/ratio.hpp"
#include "tests/kit/process.hpp"

namespace tenure::bench {

// Nanoseconds per command.
template <class Work>
double timed(std::size_t count, Work work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  const std::chrono::duration<double, std::nano> time = std::chrono::steady_clock::now() - start;
  return time.count() / static_cast<double>(count);
}

// A race between our commands, through a shell and without, and the two rivals. Prints its figures.
// Both bars are ratios to ninja.
class CommandRace {
 public:
  CommandRace(Effort effort, const std::filesystem::path& directory, std::size_t count)
      : race_(effort), directory_(directory.string()), count_(count) {
    std::ofstream ninja{directory / "build.ninja"};
    std::ofstream make{directory / "Makefile"};
    ninja << "rule t\n  command = true\n";
    std::string all;
    for (std::size_t i = 0; i < count; ++i) {
      ninja << "build o" << i << ": t\n";  // No output is ever created.
      all.append(" o").append(std::to_string(i));
    }
    make << "all:" << all << "\n.PHONY: all" << all << '\n' << all << ":\n\t@true;\n";
  }

  template <class Shell, class Direct>
  void run(std::size_t rounds, Shell shell, Direct direct) {
    race_.add_round([=, this] { return timed(count_, shell); });
    race_.add_round([=, this] { return timed(count_, direct); });
    race_.add_round([this] {
      return timed(count_, [this] { kit::run({"ninja", "-C", directory_, "-j2", "--quiet"}); });
    });
    race_.add_round([this] {
      return timed(count_, [this] { kit::run({"make", "-s", "-C", directory_, "-j2"}); });
    });
    race_.run(rounds);
  }

  void print(Report& report, Bar shell, std::optional<Bar> direct) const {
    const Samples ninja = per_second(race_[2]);
    const Samples own = per_second(race_[0]);
    report.compare("through sh", {"", own, "/s"}, {"ninja -j2", ninja, "/s"}, shell);
    report.compare("through sh", {"", own, "/s"}, {"make -j2", per_second(race_[3]), "/s"});
    report.compare("without a shell", {"", per_second(race_[1]), "/s"}, {"ninja -j2", ninja, "/s"},
                   direct);
  }

 private:
  static Samples per_second(const Samples& nanoseconds) {
    Samples out;
    for (const double one : nanoseconds) out.push_back(1e9 / one);
    return out;
  }

  Race race_;
  std::string directory_;
  std::size_t count_;
};

}  // namespace tenure::bench
