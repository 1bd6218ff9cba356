// Rival: the two bare transactions, with SQLite's busy handler between the processes. No bars: the
// total depends on the machine, and the wait on the luck of the handler.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "bench/program.hpp"
#include "bench/stored/child.hpp"
#include "bench/stored/ours.hpp"
#include "bench/stored/questions.hpp"
#include "bench/stored/sqlite.hpp"
#include "bench/stored/supervise.hpp"
#include "tenure/claim.hpp"

namespace tenure::bench::stored {
namespace {

constexpr std::size_t rounds = 6;
enum Writer : std::uint8_t { ours, bare };

struct Files {
  std::filesystem::path ours = scratch_path("ours");
  std::filesystem::path bare = scratch_path("bare");
};

struct Figures {
  double operations = 0;
  double worst = 0;  // Nanoseconds of the slowest one.
};

// From `start` to `end`; an operation that began in time counts for the worst, however long it
// took.
template <class Step>
Figures write(Step step, double start, double end) {
  Figures figures;
  std::this_thread::sleep_for(std::chrono::nanoseconds{static_cast<long>(start - now())});
  for (double before = now(); before < end;) {
    step();
    const double after = now();
    figures.worst = std::max(figures.worst, after - before);
    if (after < end) ++figures.operations;
    before = after;
  }
  return figures;
}

void be_a_writer(const Files& files, std::size_t process, const Line& line) {
  const std::string key = "book/" + std::to_string(process);
  const Claim claim = book(process).exclusive();
  const Space space = open_file(files.ours);
  Tickets tickets{files.bare};
  line.send({});
  while (const auto command = line.next()) {
    const double start = command->at(1);
    const double end = command->at(2);
    const Figures figures = static_cast<int>(command->at(0)) == ours
                                ? write([&] { lock_and_release(space, claim); }, start, end)
                                : write(
                                      [&] {
                                        tickets.insert(key);
                                        tickets.remove(key);
                                      },
                                      start, end);
    line.send({figures.operations, figures.worst});
  }
}

class Writers {
 public:
  Writers(const Placement& placement, std::size_t count, std::chrono::nanoseconds time)
      : time_(static_cast<double>(time.count())) {
    for (std::size_t i = 0; i < count; ++i) {
      children_.emplace_back(placement.core_of(i),
                             [this, i](const Line& line) { be_a_writer(files_, i, line); });
      children_.back().hear();
    }
  }

  // Nanoseconds an operation of all together.
  double round(Writer who) {
    const double start = now() + 5e6;  // All have received the command by then.
    for (Child& child : children_) child.tell({static_cast<double>(who), start, start + time_});
    double sum = 0;
    double least = time_;
    for (Child& child : children_) {
      const Words words = child.hear();
      const Figures figures{.operations = words.at(0), .worst = words.at(1)};
      sum += figures.operations;
      least = std::min(least, figures.operations);
      worst_[who] = std::max(worst_[who], figures.worst);
    }
    const double share = least * static_cast<double>(children_.size()) / std::max(sum, 1.0);
    least_share_[who] = std::min(least_share_[who], share);
    return time_ / std::max(sum, 1.0);
  }

  [[nodiscard]] double worst_ms(Writer who) const { return worst_[who] / 1e6; }
  // Of the process with the fewest operations in a round, as a fraction of the mean.
  [[nodiscard]] double least_share(Writer who) const { return least_share_[who]; }

 private:
  double time_;
  Files files_;
  std::vector<Child> children_;
  std::array<double, 2> worst_{};
  std::array<double, 2> least_share_{1, 1};
};

void ask_in(Report& report, const Placement& placement) {
  const std::chrono::milliseconds time{report.effort().of(1'000, 20)};
  Writers writers{placement, report.effort().of(16, 4), time};
  Race race{report.effort()};
  for (const Writer who : {ours, bare}) race.add_round([&, who] { return writers.round(who); });
  race.run(rounds);

  const std::string name = "bare, busy handler";
  report.compare(placement.line("all together"), {"", a_second(race[ours]), "/s"},
                 {name, a_second(race[bare]), "/s"});
  report.compare(placement.line("worst single wait"), {"", {writers.worst_ms(ours)}, "ms"},
                 {name, {writers.worst_ms(bare)}, "ms"});
  report.figure(placement.line("slowest : mean, ours"), writers.least_share(ours), "");
  report.figure(placement.line("slowest : mean, bare"), writers.least_share(bare), "");
}

}  // namespace

void ask_writers(Report& report) {
  for (const Placement& placement : possible_placements(report)) ask_in(report, placement);
}

}  // namespace tenure::bench::stored
