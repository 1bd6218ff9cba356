// No rival: the same lock with and without tickets of another process.
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "bench/program.hpp"
#include "bench/stored/child.hpp"
#include "bench/stored/ours.hpp"
#include "bench/stored/questions.hpp"
#include "bench/stored/supervise.hpp"
#include "tenure/claim.hpp"

namespace tenure::bench::stored {
namespace {

const Name foreign{"foreign"};

constexpr std::array<std::size_t, 4> counts = {0, 500, 5'000, 50'000};
constexpr std::chrono::microseconds round_time{20'000};  // Several checkpoints.
constexpr std::size_t rounds = 100;

// A space, and how many keys of it the other process holds.
struct Point {
  std::filesystem::path file;
  std::size_t count;
};

void hold_all(const std::vector<Point>& points, const Line& line) {
  std::vector<Space> spaces;
  std::vector<Hold> holds;
  for (const Point& point : points) {
    const Space& space = spaces.emplace_back(open_file(point.file));
    for (std::size_t i = 0; i < point.count; ++i) holds.push_back(space.lock(foreign(i)));
  }
  line.send({});
  (void)line.next();  // Until killed.
}

}  // namespace

void ask_foreign(Report& report) {
  std::vector<Point> points;
  for (const std::size_t count : counts) {
    points.push_back(
        {.file = scratch_path("foreign"), .count = report.effort().of(count, count / 100)});
  }
  Child other{1, [&](const Line& line) { hold_all(points, line); }};
  other.hear();

  pin_to_core(0);
  const Claim claim = book.exclusive();
  std::vector<Space> spaces;
  for (const Point& point : points) spaces.push_back(open_file(point.file));
  Race race{report.effort(), round_time};
  for (const Space& space : spaces) {
    race.add([&](std::uint64_t operations) {
      for (std::uint64_t i = 0; i < operations; ++i) lock_and_release(space, claim);
    });
  }
  race.run(rounds);

  const Samples alone = in_us(race[0]);
  for (std::size_t i = 1; i < counts.size(); ++i) {
    const bool most = i + 1 == counts.size();
    report.compare(std::to_string(counts[i]) + " foreign tickets", {"", in_us(race[i]), "us"},
                   {"none", alone, "us"}, most ? std::optional{at_most(1.1)} : std::nullopt);
  }
}

}  // namespace tenure::bench::stored
