// Coroutines of many processes queue for one key, and each goes to the end of the queue after its
// turn. The process of the question queues too: its release starts a queue, and its next turn stops
// it. No rival: the long queue is compared with the short one. Also shown: the same with one thread
// per waiter, and the cost of threads that only wake each other: each of a thousand finds a colder
// cache. On one core the bar is the ratio of those threads, if that is lower: so much the wake-ups
// alone lose.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <thread>
#include <vector>

#include "bench/program.hpp"
#include "bench/ring.hpp"
#include "bench/stored/child.hpp"
#include "bench/stored/ours.hpp"
#include "bench/stored/questions.hpp"
#include "bench/stored/supervise.hpp"
#include "tenure/claim.hpp"
#include "tenure/locker.hpp"

namespace tenure::bench::stored {
namespace {

constexpr std::size_t rounds = 15;
// Hand-offs of the long queue in a round: the first one finds what the others left in the caches.
constexpr std::size_t laps = 5;
constexpr std::size_t most_waiters = 1'000;

// In memory that all processes share. Seat 0 belongs to the process of the question.
struct Board {
  std::atomic<std::uint64_t> taken = 0;
  std::array<Signal, most_waiters + 1> seats;  // For threads that only wake each other.
};

struct Queue {
  std::filesystem::path file;
  std::size_t waiters;
  Board* board;
};

enum Sort : std::uint8_t { task, thread, control };

Detached wait_in_turns(Locker space, Board& board) {
  const Claim claim = book.exclusive();
  for (;;) {
    Hold hold = co_await space.async_lock(claim);
    board.taken.fetch_add(1);
    hold.release();
  }
}

[[noreturn]] void take_turns(const Space& space, Board& board) {
  const Claim claim = book.exclusive();
  for (;;) {
    Hold hold = space.lock(claim);
    board.taken.fetch_add(1);
    hold.release();
  }
}

void pass_on(const Queue& queue, std::size_t seat) {
  queue.board->seats.at(seat).wait_for(1);
  queue.board->seats.at(seat).reset();
  queue.board->seats.at((seat + 1) % (queue.waiters + 1)).set(1);
}

// A command adds a thread: which queue, which seat, which sort.
void host_waiters(const std::array<Queue, 4>& queues, const Line& line) {
  std::map<std::size_t, Space> spaces;
  while (const auto command = line.next()) {
    const auto index = static_cast<std::size_t>(command->at(0));
    const auto seat = static_cast<std::size_t>(command->at(1));
    const Queue& queue = queues.at(index);
    const int sort = static_cast<int>(command->at(2));
    if (sort == control) {
      std::thread{[&queue, seat] {
        for (;;) pass_on(queue, seat);
      }}.detach();
    } else {
      if (!spaces.contains(index)) spaces.emplace(index, open_file(queue.file));
      const Space& space = spaces.at(index);
      if (sort == task) {
        wait_in_turns(space, *queue.board);
      } else {
        std::thread{take_turns, std::cref(space), std::ref(*queue.board)}.detach();
      }
    }
    line.send({});
  }
  ::pause();  // The threads use objects of this frame; a signal ends all of them.
}

// A queue that stands still except during its rounds.
class Running {
 public:
  Running(const Queue& queue, std::vector<Child>& children, std::size_t index,
          std::initializer_list<Sort> sorts)
      : queue_(queue), space_(open_file(queue.file)), hold_(space_.lock(book)) {
    // One process after the other, so that neighbours in the queue belong to different processes.
    for (std::size_t i = 0; i < queue.waiters; ++i) {
      for (const Sort sort : sorts) {
        children[i % children.size()].ask(
            {static_cast<double>(index), static_cast<double>(i + 1), static_cast<double>(sort)});
      }
    }
    while (space_.inspect(book).size() < queue.waiters + 1) {
      std::this_thread::sleep_for(std::chrono::milliseconds{10});
    }
  }

  // Nanoseconds per hand-off.
  double round(std::size_t handoffs) {
    const std::uint64_t before = queue_.board->taken.load();
    const double start = now();
    std::uint64_t own = 0;
    std::uint64_t done = 0;
    for (; done < handoffs; done = own + queue_.board->taken.load() - before) {
      hold_.release();
      hold_ = space_.lock(book);
      ++own;
    }
    return (now() - start) / static_cast<double>(done);
  }

  double control_round(std::size_t handoffs) {
    const double start = now();
    std::size_t done = 0;
    for (; done < handoffs; done += queue_.waiters + 1) {
      queue_.board->seats[1].set(1);
      queue_.board->seats[0].wait_for(1);
      queue_.board->seats[0].reset();
    }
    return (now() - start) / static_cast<double>(done);
  }

 private:
  const Queue& queue_;
  Space space_;
  Hold hold_;
};

void ask_in(Report& report, const Placement& placement) {
  const Shared<std::array<Board, 4>> boards;
  const Effort effort = report.effort();
  const std::size_t short_line = effort.of(10, 2);
  const std::size_t long_line = effort.of(most_waiters, 20);
  const auto queue = [&](std::size_t index, const char* file, std::size_t waiters) {
    return Queue{.file = scratch_path(file), .waiters = waiters, .board = &(*boards)[index]};
  };
  const std::array queues = {queue(0, "few", short_line), queue(1, "many", long_line),
                             queue(2, "few-threads", short_line),
                             queue(3, "many-threads", long_line)};
  std::vector<Child> children;
  for (std::size_t i = 0; i < effort.of(20, 4); ++i) {
    children.emplace_back(placement.core_of(i),
                          [&](const Line& line) { host_waiters(queues, line); });
  }
  pin_to_core(0);
  Running few{queues[0], children, 0, {task}};
  Running many{queues[1], children, 1, {task}};
  Running few_threads{queues[2], children, 2, {thread, control}};
  Running many_threads{queues[3], children, 3, {thread, control}};

  const std::size_t handoffs = laps * long_line;
  Race race{effort};
  const auto of_few = race.add_round([&] { return few.round(handoffs); });
  const auto of_many = race.add_round([&] { return many.round(handoffs); });
  const auto few_by_threads = race.add_round([&] { return few_threads.round(handoffs); });
  const auto many_by_threads = race.add_round([&] { return many_threads.round(handoffs); });
  const auto bare_few = race.add_round([&] { return few_threads.control_round(handoffs); });
  const auto bare_many = race.add_round([&] { return many_threads.control_round(handoffs); });
  race.run(rounds);
  const double bare = spread_of(a_second(race[bare_many]) / a_second(race[bare_few])).median;
  report.compare(placement.line("1,000 waiting"), {"", a_second(race[of_many]), "/s"},
                 {"10 waiting", a_second(race[of_few]), "/s"},
                 at_least(placement.cores == 1 ? std::min(0.8, bare) : 0.8));
  report.compare(placement.line("1,000 threads waiting"),
                 {"", a_second(race[many_by_threads]), "/s"},
                 {"10 threads", a_second(race[few_by_threads]), "/s"});
  report.compare(placement.line("1,000 bare futexes"), {"", a_second(race[bare_many]), "/s"},
                 {"10", a_second(race[bare_few]), "/s"});
  for (Child& child : children) child.kill();  // Before our own space starts the queues.
}

}  // namespace

void ask_waiters_on_one_core(Report& report) { ask_in(report, placements[0]); }

void ask_waiters_on_two_cores(Report& report) {
  if (cores() < 2) return report.note("not measured: one core only");
  ask_in(report, placements[1]);
}

}  // namespace tenure::bench::stored
