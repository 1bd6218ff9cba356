#include "bench/ratio.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <utility>

namespace tenure::bench {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::microseconds brief_round_time{20};

double nanoseconds(Clock::duration time) {
  return std::chrono::duration<double, std::nano>(time).count();
}

Clock::duration time_of(const Race::Work& work, std::uint64_t operations) {
  const auto start = Clock::now();
  work(operations);
  return Clock::now() - start;
}

// How many operations fill a round; finding out warms the contestant up. The shortest of several
// tries counts: one that lost its core meanwhile would look like a full round.
std::uint64_t fill(const Race::Work& work, Clock::duration time) {
  for (std::uint64_t operations = 1;; operations *= 2) {
    Clock::duration shortest = time_of(work, operations);
    for (int i = 0; i < 3 && shortest >= time; ++i) {
      shortest = std::min(shortest, time_of(work, operations));
    }
    if (shortest >= time) return operations;
  }
}

std::string text_of(double value) {
  std::array<char, 32> text{};
  const bool whole = value == 0 || value >= 1000;
  (void)std::snprintf(text.data(), text.size(),
                      whole        ? "%.0f"
                      : value < 10 ? "%.2f"
                                   : "%.1f",
                      value);
  return text.data();
}

std::string with_unit(double value, std::string_view unit) {
  return text_of(value) + " " + std::string{unit};
}

}  // namespace

Samples operator/(const Samples& a, const Samples& b) {
  Samples ratios(a.size());
  std::ranges::transform(a, b, ratios.begin(), std::divides<>{});
  return ratios;
}

Spread spread_of(Samples samples) {
  std::ranges::sort(samples);
  const std::size_t n = samples.size();
  return {.low = samples[n / 4], .median = samples[n / 2], .high = samples[n - 1 - n / 4]};
}

std::size_t Race::add(Work work) {
  const std::uint64_t operations = fill(work, effort_.brief ? brief_round_time : round_);
  return add_round([work = std::move(work), operations] {
    return nanoseconds(time_of(work, operations)) / static_cast<double>(operations);
  });
}

std::size_t Race::add_round(Round round) {
  rounds_.push_back(std::move(round));
  samples_.emplace_back();
  return rounds_.size() - 1;
}

void Race::run(std::size_t rounds) {
  const std::size_t count = rounds_.size();
  for (std::size_t round = 0; round < effort_.of(rounds, 2); ++round) {
    for (std::size_t i = 0; i < count; ++i) {
      // Each contestant comes first in turn, forwards and backwards, so that none always follows
      // the same one.
      const std::size_t step = (round / count) % 2 == 0 ? i : count - 1 - i;
      const std::size_t who = (round + step) % count;
      samples_[who].push_back(rounds_[who]());
    }
  }
}

void Report::heading(std::string_view name, std::string_view question) {
  (void)std::printf("\n%.*s: %.*s\n", static_cast<int>(name.size()), name.data(),
                    static_cast<int>(question.size()), question.data());
  line("", "ours", "rival", "ratio  [quartiles]", "bar");
}

void Report::note(std::string_view text) {
  (void)std::printf("  (%.*s)\n", static_cast<int>(text.size()), text.data());
  (void)std::fflush(stdout);
}

void Report::compare(std::string_view what, const Side& ours, const Side& rival,
                     std::optional<Bar> bar) {
  const Spread ratio = spread_of(ours.samples / rival.samples);
  std::array<char, 64> text{};
  (void)std::snprintf(text.data(), text.size(), "%.2f  [%.2f %.2f]", ratio.median, ratio.low,
                      ratio.high);
  line(what, with_unit(spread_of(ours.samples).median, ours.unit),
       with_unit(spread_of(rival.samples).median, rival.unit) + "  " + std::string{rival.name},
       text.data(), verdict(ratio.median, bar));
}

void Report::figure(std::string_view what, double value, std::string_view unit,
                    std::optional<Bar> bar) {
  line(what, with_unit(value, unit), "", "", verdict(value, bar));
}

void Report::line(std::string_view what, const std::string& ours, const std::string& rival,
                  const std::string& ratio, const std::string& verdict) {
  std::array<char, 256> text{};
  (void)std::snprintf(text.data(), text.size(), "  %-36.*s %12s   %-34s %-20s %s",
                      static_cast<int>(what.size()), what.data(), ours.c_str(), rival.c_str(),
                      ratio.c_str(), verdict.c_str());
  std::string_view trimmed{text.data()};
  trimmed.remove_suffix(trimmed.size() - 1 - trimmed.find_last_not_of(' '));
  (void)std::printf("%.*s\n", static_cast<int>(trimmed.size()), trimmed.data());
  (void)std::fflush(stdout);
}

std::string Report::verdict(double figure, std::optional<Bar> bar) {
  if (!bar.has_value()) return "";
  std::array<char, 32> number{};
  (void)std::snprintf(number.data(), number.size(), "%g", bar->value);
  const std::string text = (bar->least ? ">= " : "<= ") + std::string{number.data()};
  if (effort_.brief) return text;
  if (bar->holds(figure)) return text + "  ok";
  ++missed_;
  return text + "  MISSED";
}

}  // namespace tenure::bench
