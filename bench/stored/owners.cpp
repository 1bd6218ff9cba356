// No rival: a request with an owner that has to wait, beside what another process holds, next to
// the same without. Whether such a request is part of a deadlock must be found out without reading
// the whole space.
//
// The figure is that of the middle one of five counts of foreign tickets. SQLite packs its leaf
// pages: with one count in about eight, the row of the request begins a page, and the end of the
// request frees it again, which costs about as much as the request itself.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "bench/names.hpp"
#include "bench/program.hpp"
#include "bench/stored/child.hpp"
#include "bench/stored/ours.hpp"
#include "bench/stored/questions.hpp"
#include "bench/stored/supervise.hpp"
#include "tenure/detail/backend.hpp"

namespace tenure::bench::stored {
namespace {

const Name job{"job"};

constexpr std::size_t most = 50'000;
constexpr std::chrono::microseconds round_time{20'000};  // Several checkpoints.
constexpr std::size_t rounds = 100;
constexpr std::array<std::size_t, 5> extra{0, 3, 7, 12, 18};  // Foreign tickets beyond `most`.

// Another process holds what the request waits for, and so many keys besides, each as an owner.
struct Point {
  std::filesystem::path file;
  std::size_t count;
};

void hold_all(const std::vector<Point>& points, const Line& line) {
  std::vector<Space> spaces;
  std::vector<Hold> holds;
  for (const Point& point : points) {
    const Space& space = spaces.emplace_back(open_file(point.file));
    holds.push_back(space.as("holder").lock(book));
    for (std::size_t i = 0; i < point.count; ++i) {
      holds.push_back(space.as("job-" + std::to_string(i)).lock(job(i)));
    }
  }
  line.send({});
  (void)line.next();  // Until killed.
}

struct IdleWaiter : detail::Waiter {
  IdleWaiter() : Waiter([](Waiter&, detail::WaitOutcome) noexcept {}) {}
};

// Appends, searches, begins to wait, and gives up.
void wait_and_cancel(const Space& space, const detail::OwnerRef& owner) {
  detail::Backend& backend = detail::SpaceAccess::backend(space);
  const Claim claim = book.exclusive();
  IdleWaiter waiter;
  if (!backend.request({.claims = std::span{&claim, 1}, .owner = owner}, waiter)) {
    detail::cancel(&backend, waiter);
  }
}

}  // namespace

void ask_owners(Report& report) {
  const std::size_t many = report.effort().of(most, most / 100);
  std::vector<Point> points{{.file = scratch_path("owners"), .count = 0}};
  for (const std::size_t more : extra) {
    points.push_back({.file = scratch_path("owners"), .count = many + more});
  }
  Child other{1, [&](const Line& line) { hold_all(points, line); }};
  other.hear();

  pin_to_core(0);
  std::vector<Space> spaces;
  std::vector<Hold> holds;
  for (const Point& point : points) {
    const Space& space = spaces.emplace_back(open_file(point.file));
    holds.push_back(space.as("busy").lock(film));
  }
  // An owner without other tickets is in no deadlock; one that holds something may be.
  for (const std::string name : {"free", "busy"}) {
    Race race{report.effort(), round_time};
    for (const Space& space : spaces) {
      race.add([&space, owner = detail::SpaceAccess::backend(space).owner(Owner{name})](
                   std::uint64_t operations) {
        for (std::uint64_t i = 0; i < operations; ++i) wait_and_cancel(space, owner);
      });
    }
    race.run(rounds);

    std::vector<std::size_t> by_cost;  // Contestants with foreign tickets.
    for (std::size_t i = 1; i < points.size(); ++i) by_cost.push_back(i);
    std::ranges::sort(by_cost, {}, [&](std::size_t i) { return spread_of(race[i]).median; });
    const std::string who = name == "free" ? "" : ", owner holds something";
    report.compare("50000 foreign tickets" + who,
                   {"", in_us(race[by_cost[extra.size() / 2]]), "us"},
                   {"none", in_us(race[0]), "us"}, at_most(1.2));
    report.compare("the dearest of five counts", {"", in_us(race[by_cost.back()]), "us"},
                   {"none", in_us(race[0]), "us"});
  }
}

}  // namespace tenure::bench::stored
