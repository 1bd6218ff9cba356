// Coroutines of ten processes queue for one key, and each goes to the end of the queue after its
// turn. The process of the question queues too: its release starts a queue, and its next turn stops
// it. No rival: the long queue is compared with the short one.
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "bench/cluster/etcd.hpp"
#include "bench/cluster/postgres.hpp"
#include "bench/cluster/questions.hpp"
#include "bench/names.hpp"
#include "bench/ring.hpp"
#include "bench/stored/child.hpp"
#include "tenure/locker.hpp"

namespace tenure::bench::cluster {
namespace {

using Taken = std::atomic<std::uint64_t>;

struct Queue {
  std::string name;
  std::size_t waiters;
  Taken* taken;  // In memory that all processes share.
};

Detached wait_in_turns(Locker space, Taken& taken) {
  const Claim claim = book.exclusive();
  for (;;) {
    Hold hold = co_await space.async_lock(claim);
    taken.fetch_add(1);
    hold.release();
  }
}

// A command adds a waiter to a queue.
void host_waiters(const Opener& open, const std::array<Queue, 2>& queues,
                  const stored::Line& line) {
  std::map<std::size_t, Space> spaces;
  while (const auto command = line.next()) {
    const auto index = static_cast<std::size_t>(command->at(0));
    if (!spaces.contains(index)) spaces.emplace(index, open(queues.at(index).name));
    wait_in_turns(spaces.at(index), *queues.at(index).taken);
    line.send({});
  }
}

// A queue that stands still except during its rounds.
class Running {
 public:
  Running(const Opener& open, const Queue& queue, std::vector<stored::Child>& children,
          std::size_t index)
      : queue_(queue), space_(open(queue.name)), hold_(space_.lock(book)) {
    // One process after the other, so that neighbours in the queue belong to different processes.
    for (std::size_t i = 0; i < queue.waiters; ++i) {
      children[i % children.size()].ask({static_cast<double>(index)});
    }
    while (space_.inspect(book).size() < queue.waiters + 1) {
      std::this_thread::sleep_for(std::chrono::milliseconds{10});
    }
  }

  // Nanoseconds per hand-off.
  double round(std::size_t handoffs) {
    const std::uint64_t before = queue_.taken->load();
    const double start = stored::now();
    std::uint64_t own = 0;
    std::uint64_t done = 0;
    for (; done < handoffs; done = own + queue_.taken->load() - before) {
      hold_.release();
      hold_ = space_.lock(book);
      ++own;
    }
    return (stored::now() - start) / static_cast<double>(done);
  }

 private:
  const Queue& queue_;
  Space space_;
  Hold hold_;
};

void ask_on(Report& report, const Opener& open) {
  const stored::Shared<std::array<Taken, 2>> taken;
  const Effort effort = report.effort();
  const std::size_t many = effort.of(1'000, 20);
  const std::array queues = {
      Queue{.name = "few", .waiters = effort.of(10, 2), .taken = taken->data()},
      Queue{.name = "many", .waiters = many, .taken = &(*taken)[1]}};
  std::vector<stored::Child> children;
  for (std::size_t i = 0; i < effort.of(10, 2); ++i) {
    children.emplace_back(client_core,
                          [&](const stored::Line& line) { host_waiters(open, queues, line); });
  }
  Running few{open, queues[0], children, 0};
  Running line{open, queues[1], children, 1};
  Race race{effort};
  const auto of_few = race.add_round([&] { return few.round(many); });
  const auto of_many = race.add_round([&] { return line.round(many); });
  race.run(7);
  report.compare(std::to_string(many) + " waiting", {"", stored::a_second(race[of_many]), "/s"},
                 {"10 waiting", stored::a_second(race[of_few]), "/s"}, at_least(0.8));
  for (stored::Child& child : children) child.kill();  // Before our own space starts the queues.
}

}  // namespace

void ask_etcd_waiters(Report& report) {
  if (const auto server = start_etcd(report)) ask_on(report, etcd_opener(*server));
}

void ask_postgres_waiters(Report& report) {
  if (const auto server = start_postgres(report)) ask_on(report, postgres_opener(*server));
}

}  // namespace tenure::bench::cluster
