// No bars: how a cost grows; each point is compared with the first one of its line.
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "bench/names.hpp"
#include "bench/program.hpp"
#include "bench/questions.hpp"
#include "bench/ring.hpp"
#include "tenure/claim.hpp"
#include "tenure/hold.hpp"
#include "tenure/path.hpp"
#include "tenure/space.hpp"

namespace tenure::bench {
namespace {

constexpr std::array<std::size_t, 6> other_holds = {0, 10, 100, 1'000, 10'000, 100'000};
constexpr std::array<std::size_t, 6> waiters = {1, 10, 100, 1'000, 8'000, 100'000};

struct Point {
  std::string what;
  std::size_t contestant;
};

void print(Report& report, const Race& race, std::span<const Point> points) {
  const Point& first = points.front();
  report.figure(first.what, spread_of(race[first.contestant]).median, "ns");
  for (const Point& point : points.subspan(1)) {
    report.compare(point.what, {"", race[point.contestant]}, {first.what, race[first.contestant]});
  }
}

std::vector<Hold> hold_books(const Space& space, std::size_t count) {
  std::vector<Hold> holds;
  for (std::size_t i = 1; i <= count; ++i) holds.push_back(space.lock(book(i).shared()));
  return holds;
}

void beside_others(Report& report) {
  struct Others {
    Space space = open("local:");
    std::vector<Hold> holds;
  };
  const Claim claim = book(0);
  std::vector<std::unique_ptr<Others>> all;
  std::vector<Point> points;
  Race race{report.effort()};
  for (const std::size_t full : other_holds) {
    auto& others = *all.emplace_back(std::make_unique<Others>());
    others.holds = hold_books(others.space, report.effort().of(full, full / 100));
    points.push_back({std::to_string(full) + " other holds", race.add([&](std::uint64_t n) {
                        for (; n > 0; --n) const Hold hold = others.space.lock(claim);
                      })});
  }
  race.run(100);
  print(report, race, points);
}

void handing_off(Report& report) {
  const Space space = open("local:");
  std::vector<std::unique_ptr<Ring>> rings;
  std::vector<Point> points;
  Race race{report.effort()};
  for (const std::size_t full : waiters) {
    const std::size_t waiting = report.effort().of(full, full / 100 + 1);
    Ring& ring = *rings.emplace_back(std::make_unique<Ring>(space, book(full), waiting));
    points.push_back({"hand-off, " + std::to_string(full) + " waiting",
                      race.add([&](std::uint64_t n) { ring.turn(n); })});
  }
  race.run(100);
  print(report, race, points);
}

void wide_requests(Report& report) {
  const Claim one = book(1);
  const Claim all{Path{}};
  const Claim parent = book.shared();
  const Space space = open("local:");
  const Space family = open("local:");
  const auto children = hold_books(family, 500);  // Some in each shard.

  const auto lock = [](const Space& where, const Claim& what) {
    return [&where, &what](std::uint64_t n) {
      for (; n > 0; --n) const Hold hold = where.lock(what);
    };
  };
  Race race{report.effort()};
  const std::array points{
      Point{"one claim", race.add(lock(space, one))},
      Point{"the whole space", race.add(lock(space, all))},
      Point{"a parent, children in all shards", race.add(lock(family, parent))},
  };
  race.run(100);
  print(report, race, points);
}

}  // namespace

void ask_curve(Report& report) {
  pin_to_core(0);
  beside_others(report);
  handing_off(report);
  wide_requests(report);
}

}  // namespace tenure::bench
