// Two processes pass a lock back and forth. The holder releases only when the other one waits and
// sleeps; the time is from the release to the grant. Control: passing a baton with a futex, with
// one bare write transaction before and one bare read transaction after it, between the same two
// cores.
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <thread>
#include <vector>

#include "bench/program.hpp"
#include "bench/stored/child.hpp"
#include "bench/stored/locks.hpp"
#include "bench/stored/questions.hpp"
#include "bench/stored/supervise.hpp"

namespace tenure::bench::stored {
namespace {

constexpr std::size_t rounds = 100;
// After the other process has announced that it is about to wait: its lock call must be asleep by
// then.
constexpr std::chrono::microseconds dwell{500};
// For a lock that is polled every 100 ms: all moments in between, in an order without a pattern.
std::chrono::microseconds polling_dwell(std::uint32_t turn) {
  return std::chrono::microseconds{turn * 61'803 % 100'000};
}

// Shared by both sides. Side 0 begins, and each has `turns` turns.
struct Board {
  std::array<Signal, 2> asking;  // The turn that a side is about to wait for.
  Signal grants;
  Signal baton;
  std::atomic<double> released = 0;

  void clear() noexcept {
    for (Signal* signal : {&asking[0], &asking[1], &grants, &baton}) signal->reset();
  }
};

// The turns of one side. Returns the time of each hand-off to it.
Words play(Lock& lock, Kind kind, Board& board, std::uint32_t side, std::uint32_t turns) {
  Words times;
  for (std::uint32_t turn = 1; turn <= turns; ++turn) {
    const bool first = side == 0 && turn == 1;
    const bool last = side == 1 && turn == turns;
    if (side == 1 && turn == 1) board.grants.wait_at_least(1);
    board.asking[side].set(turn);
    lock.acquire();
    const double granted = now();
    if (!first) times.push_back(granted - board.released.load());
    if (!first && times.back() < 0) throw std::runtime_error("granted before it was released");
    const std::uint32_t mine = board.grants.raise();
    if (!last) {
      board.asking[1 - side].wait_at_least(turn + side);
      std::this_thread::sleep_for(kind == Kind::polling ? polling_dwell(2 * turn + side) : dwell);
    }
    board.released.store(now());
    lock.release();
    // A lock that lets others overtake (flock) would grant it again to the process that has just
    // released it.
    if (!last) board.grants.wait_at_least(mine + 1);
  }
  return times;
}

// Two processes that have all locks. The words of a command: the kind, the number of turns.
class Players {
 public:
  explicit Players(const Placement& placement) {
    const Meeting meeting{.file = scratch_path("handoff"), .baton = &board_->baton};
    for (std::uint32_t side = 0; side < 2; ++side) {
      children_.emplace_back(placement.core_of(side), [&, meeting, side](const Line& line) {
        std::array<std::unique_ptr<Lock>, kinds> locks;
        while (const auto command = line.next()) {
          const auto index = static_cast<std::size_t>(command->at(0));
          const auto kind = static_cast<Kind>(index);
          if (locks[index] == nullptr) {
            locks[index] = make_lock(kind, meeting, side);
            line.send({});
            continue;
          }
          line.send(
              play(*locks[index], kind, *board_, side, static_cast<std::uint32_t>(command->at(1))));
        }
      });
    }
  }

  // One side after the other: the first creates the database, the second finds it.
  void open(Kind kind) {
    for (Child& child : children_) child.ask({static_cast<double>(kind), 0});
  }

  // The median, in nanoseconds.
  double play_round(Kind kind, std::size_t turns) {
    board_->clear();
    for (Child& child : children_) {
      child.tell({static_cast<double>(kind), static_cast<double>(turns)});
    }
    Samples times;
    for (Child& child : children_) {
      const Words of_side = child.hear();
      times.insert(times.end(), of_side.begin(), of_side.end());
    }
    return spread_of(std::move(times)).median;
  }

 private:
  Shared<Board> board_;
  std::vector<Child> children_;
};

void ask_in(Report& report, const Placement& placement) {
  Players players{placement};
  const std::size_t turns = report.effort().of(10, 2);
  Race race{report.effort()};
  const auto add = [&](Kind kind) {
    players.open(kind);
    return race.add_round([&players, kind, turns] { return players.play_round(kind, turns); });
  };
  const auto ours = add(Kind::ours);
  const auto control = add(Kind::control);
  const auto futex = add(Kind::futex);
  const auto flock = add(Kind::flock);
  race.run(rounds);
  // It would take minutes in the race.
  players.open(Kind::polling);
  const Samples polling{players.play_round(Kind::polling, report.effort().of(15, 2)) / 1'000};

  const Samples times = in_us(race[ours]);
  const std::string what = placement.line("hand-off");
  report.compare(what, {"", times, "us"}, {"futex + write + read", in_us(race[control]), "us"},
                 at_most(3.0));
  report.compare(what, {"", times, "us"}, {"bare futex", in_us(race[futex]), "us"});
  report.compare(what, {"", times, "us"}, {"flock(2)", in_us(race[flock]), "us"});
  report.compare(what, {"", Samples{spread_of(times).median}, "us"},
                 {"polled every 100 ms", polling, "us"});
}

}  // namespace

void ask_handoff(Report& report) {
  for (const Placement& placement : possible_placements(report)) ask_in(report, placement);
}

}  // namespace tenure::bench::stored
