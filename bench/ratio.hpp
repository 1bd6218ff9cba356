// ratio.hpp: ratios that hold on a busy machine.
//
// Contestants are timed in many short rounds of one run, each once per round, and each round starts
// with another contestant. A ratio is the median of the ratios of the rounds: whatever slows the
// machine for longer than a round affects both sides alike, and whatever affects one side of a few
// rounds moves the median little. (The ratio of the two smallest times would compare the luckiest
// moment of each side, and on a busy machine one side may not have had one.)
//
// Thread safety: none; one thread runs a race.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tenure::bench {

// One number per round: nanoseconds per operation, or a ratio of two of those.
using Samples = std::vector<double>;

[[nodiscard]] Samples operator/(const Samples& a, const Samples& b);  // Round by round.

struct Spread {
  double low = 0;  // A quarter of the rounds is below this,
  double median = 0;
  double high = 0;  // and a quarter above this.
};
[[nodiscard]] Spread spread_of(Samples samples);  // Requires: not empty.

struct Bar {
  double value;
  bool least;  // Otherwise: at most.
  [[nodiscard]] bool holds(double figure) const noexcept {
    return least ? figure >= value : figure <= value;
  }
};
constexpr Bar at_most(double value) noexcept { return {.value = value, .least = false}; }
constexpr Bar at_least(double value) noexcept { return {.value = value, .least = true}; }

// How much is measured. The brief one is for ctest: it shows that a benchmark still runs.
struct Effort {
  bool brief = false;
  [[nodiscard]] std::size_t of(std::size_t full, std::size_t little) const noexcept {
    return brief ? little : full;
  }
};

class Race {
 public:
  using Work = std::function<void(std::uint64_t operations)>;
  using Round = std::function<double()>;  // One round; returns nanoseconds per operation.

  // A round is long compared with the clock's resolution and a cold start, and short compared with
  // the scheduler's time slice, unless a round must span periodic work of the contestant.
  explicit Race(Effort effort, std::chrono::microseconds round = std::chrono::microseconds{500})
      : effort_(effort), round_(round) {}

  // Adds a contestant that does that many operations. Returns its index in samples().
  std::size_t add(Work work);
  // The same for a contestant that measures its own time.
  std::size_t add_round(Round round);

  void run(std::size_t rounds = 300);
  [[nodiscard]] const Samples& operator[](std::size_t contestant) const {
    return samples_[contestant];
  }

 private:
  Effort effort_;
  std::chrono::microseconds round_;
  std::vector<Round> rounds_;
  std::vector<Samples> samples_;
};

// Prints a line for each figure and remembers whether a bar was missed.
class Report {
 public:
  explicit Report(Effort effort) noexcept : effort_(effort) {}

  void heading(std::string_view name, std::string_view question);
  void note(std::string_view text);

  struct Side {
    std::string_view name;  // Printed for the rival.
    const Samples& samples;
    std::string_view unit = "ns";
  };
  // The ratio of ours to the rival's.
  void compare(std::string_view what, const Side& ours, const Side& rival,
               std::optional<Bar> bar = {});
  // A figure that has a bar but no rival.
  void figure(std::string_view what, double value, std::string_view unit,
              std::optional<Bar> bar = {});

  [[nodiscard]] Effort effort() const noexcept { return effort_; }
  [[nodiscard]] std::size_t missed() const noexcept { return missed_; }

 private:
  static void line(std::string_view what, const std::string& ours, const std::string& rival,
                   const std::string& ratio, const std::string& verdict);
  [[nodiscard]] std::string verdict(double figure, std::optional<Bar> bar);

  Effort effort_;
  std::size_t missed_ = 0;
};

}  // namespace tenure::bench
