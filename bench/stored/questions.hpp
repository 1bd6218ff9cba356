// questions.hpp: what stored_bench asks, one source file each. README.md has the bars.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "bench/program.hpp"
#include "bench/ratio.hpp"

namespace tenure::bench::stored {

void ask_uncontended(Report& report);
void ask_handoff(Report& report);
// The process opens a space, and must not fork afterwards: so each placement has its own process.
void ask_waiters_on_one_core(Report& report);
void ask_waiters_on_two_cores(Report& report);
void ask_foreign(Report& report);
void ask_groups(Report& report);
void ask_permits(Report& report);
void ask_owners(Report& report);
void ask_death(Report& report);
void ask_writers(Report& report);
void ask_idle(Report& report);
void ask_puts(Report& report);
void ask_durable(Report& report);
void ask_sharded(Report& report);

// Where processes run. Waking a sleeping core costs more than most of what is measured, so every
// question about several processes is asked in both placements.
struct Placement {
  std::string_view name;
  std::size_t cores;
  [[nodiscard]] std::size_t core_of(std::size_t process) const noexcept { return process % cores; }
  [[nodiscard]] std::string line(std::string_view what) const {
    return std::string{what} + " on " + std::string{name};
  }
};
inline constexpr std::array placements = {Placement{.name = "one core", .cores = 1},
                                          Placement{.name = "two cores", .cores = 2}};

// The placements that this machine has. Call it before anything is pinned.
[[nodiscard]] inline std::span<const Placement> possible_placements(Report& report) {
  if (cores() >= 2) return placements;
  report.note("two cores: not measured, there is one only");
  return std::span{placements}.first(1);
}

// A race's samples are in nanoseconds.
[[nodiscard]] inline Samples in_us(Samples samples) {
  for (double& sample : samples) sample /= 1'000;
  return samples;
}
[[nodiscard]] inline Samples a_second(Samples samples) {
  for (double& sample : samples) sample = 1e9 / sample;
  return samples;
}

}  // namespace tenure::bench::stored
