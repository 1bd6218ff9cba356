// Two processes pass a lock to and fro. Whoever has it lets go only when the other one waits; the
// time is from there until that one has it.
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "bench/cluster/etcd.hpp"
#include "bench/cluster/questions.hpp"
#include "bench/names.hpp"
#include "bench/stored/child.hpp"
#include "bench/stored/locks.hpp"

namespace tenure::bench::cluster {
namespace {

using stored::Child;
using stored::Line;
using stored::Shared;
using stored::Signal;
using stored::Words;

// A lock of two processes, made in each; and how long one takes, from when it says that it is about
// to ask, until it waits for sure.
struct Passed {
  std::function<std::unique_ptr<stored::Lock>()> make;
  std::chrono::microseconds dwell;
};

struct Board {
  std::array<Signal, 2> asking;  // The turn that a side is about to wait for.
  Signal grants;
  std::atomic<double> released = 0;

  void clear() noexcept {
    for (Signal* signal : {&asking[0], &asking[1], &grants}) signal->reset();
  }
};

// The turns of one side, which alternate. Returns the time of each hand-off to it.
Words play(stored::Lock& lock, std::chrono::microseconds dwell, Board& board, std::uint32_t side,
           std::uint32_t turns) {
  Words times;
  for (std::uint32_t turn = 1; turn <= turns; ++turn) {
    const bool first = side == 0 && turn == 1;
    const bool last = side == 1 && turn == turns;
    if (side == 1 && turn == 1) board.grants.wait_at_least(1);
    board.asking[side].set(turn);
    lock.acquire();
    const double granted = stored::now();
    if (!first) times.push_back(granted - board.released.load());
    const std::uint32_t mine = board.grants.raise();
    if (!last) {
      board.asking[1 - side].wait_at_least(turn + side);
      std::this_thread::sleep_for(dwell);
    }
    board.released.store(stored::now());
    lock.release();
    if (!last) board.grants.wait_at_least(mine + 1);
  }
  return times;
}

class Players {
 public:
  explicit Players(std::vector<Passed> locks) : locks_(std::move(locks)) {
    for (std::uint32_t side = 0; side < 2; ++side) {
      children_.emplace_back(client_core, [this, side](Line& line) {
        std::vector<std::unique_ptr<stored::Lock>> made(locks_.size());
        while (const auto command = line.next()) {
          const auto which = static_cast<std::size_t>(command->at(0));
          if (made[which] == nullptr) made[which] = locks_[which].make();
          line.send(play(*made[which], locks_[which].dwell, *board_, side,
                         static_cast<std::uint32_t>(command->at(1))));
        }
      });
    }
  }

  // Sorted, in nanoseconds.
  Samples round(std::size_t which, std::size_t turns) {
    board_->clear();
    for (Child& child : children_) {
      child.tell({static_cast<double>(which), static_cast<double>(turns)});
    }
    Samples times;
    for (Child& child : children_) {
      const Words of_side = child.hear();
      times.insert(times.end(), of_side.begin(), of_side.end());
    }
    std::ranges::sort(times);
    return times;
  }

 private:
  const std::vector<Passed> locks_;
  Shared<Board> board_;
  std::vector<Child> children_;
};

class OurLock final : public stored::Lock {
 public:
  explicit OurLock(const std::string& url) : space_(open_etcd_space(url)) {}
  void acquire() override { hold_ = space_.lock(book); }
  void release() override { hold_.release(); }

 private:
  Space space_;
  Hold hold_;
};

double percentile(const Samples& sorted, double part) {
  return sorted[static_cast<std::size_t>(part * static_cast<double>(sorted.size() - 1))];
}

}  // namespace

void ask_etcd_handoff(Report& report) {
  const auto server = start_etcd(report);
  if (server == nullptr) return;
  std::vector<Passed> locks = {
      {.make = [url = etcd_url(*server)] { return std::make_unique<OurLock>(url); },
       .dwell = std::chrono::milliseconds{3}}};
  const bool with_etcdctl = has_etcdctl();
  if (with_etcdctl) {
    locks.push_back({.make = [at = server->endpoint()] { return make_etcdctl_lock(at); },
                     .dwell = std::chrono::milliseconds{300}});
  }
  Players players{std::move(locks)};
  static_cast<void>(players.round(0, 2));  // Connects.
  std::array<Samples, 2> all;
  const std::size_t rounds = report.effort().of(8, 1);
  for (std::size_t i = 0; i < rounds; ++i) {
    for (const auto& [which, turns] : {std::pair<std::size_t, std::size_t>{0, 60}, {1, 4}}) {
      if (which == 1 && !with_etcdctl) continue;
      const Samples times = players.round(which, report.effort().of(turns, 2));
      all.at(which).insert(all.at(which).end(), times.begin(), times.end());
    }
  }
  for (Samples& times : all) std::ranges::sort(times);
  const auto at = [&](std::size_t which, double part) {
    return Samples{percentile(all.at(which), part) / 1'000};
  };
  if (!with_etcdctl) {
    report.figure("hand-off, p50", at(0, 0.5)[0], "us");
    report.figure("hand-off, p99", at(0, 0.99)[0], "us");
    return;
  }
  report.compare("hand-off, p50", {"", at(0, 0.5), "us"}, {"etcdctl lock", at(1, 0.5), "us"});
  report.compare("hand-off, p99", {"", at(0, 0.99), "us"}, {"etcdctl lock", at(1, 0.99), "us"});
}

}  // namespace tenure::bench::cluster
