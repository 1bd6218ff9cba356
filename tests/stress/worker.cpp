// A worker of the stress run: a few threads that lock until SIGTERM, which the starting process has
// blocked.
//
//   stress_worker DIRECTORY NAME SLOT THREADS SEED
#include <signal.h>  // NOLINT: sigtimedwait is POSIX's.

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <exception>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/stress/client.hpp"

namespace tenure::stress {
namespace {

// An upper bound: a deadline converted to CLOCK_BOOTTIME is then rather too early.
std::int64_t clock_base(Store& store) {
  std::int64_t base = std::numeric_limits<std::int64_t>::max();
  for (int i = 0; i < 100; ++i) {
    const std::int64_t before = boot_ns();
    base = std::min(base, store.now().time_since_epoch().count() - before);
  }
  return base;
}

// The operator: evicts the ticket of any holder or waiter.
void evict_one(const Client::Setup& setup, unsigned thread, std::uint64_t number, Random& random) {
  const std::vector<TicketInfo> all = setup.space.inspect();
  if (all.empty() || !one_in(random, 4)) return;
  const Token token = all[below(random, all.size())].ticket.number;
  setup.log.write(line({.time = boot_ns(),
                        .thread = thread,
                        .request = number,
                        .kind = Event::Kind::evicting,
                        .a = token.value}));
  if (one_in(random, 2)) {
    setup.space.evict(token);
  } else {
    setup.space.evict_now(token);
  }
}

// Ends waits at random, and inspects the space, until it is told to stop.
void disturb(const Client::Setup& setup, const std::vector<std::unique_ptr<Client>>& clients,
             const sigset_t& signals, Random& random) {
  std::uint64_t looks = 0;
  for (;;) {
    const timespec nap{.tv_sec = 0, .tv_nsec = static_cast<long>(below(random, 10'000'000))};
    if (::sigtimedwait(&signals, nullptr, &nap) == SIGTERM) return;
    clients[below(random, clients.size())]->stop_waiting();
    if (!one_in(random, 40)) continue;
    evict_one(setup, static_cast<unsigned>(clients.size()), ++looks, random);
  }
}

void run(const std::vector<std::string>& words, const sigset_t& signals) {
  const std::string& directory = words.at(1);
  const auto slot = static_cast<std::size_t>(std::stoul(words.at(3)));
  const auto threads = static_cast<unsigned>(std::stoul(words.at(4)));
  Random random{std::stoull(words.at(5))};

  const Log log{directory + '/' + words.at(2) + ".log"};
  const Progress progress{directory + "/progress"};
  const std::shared_ptr<Store> store = tenure::store("sqlite:" + directory + "/space.db");
  const Space space = open(store, {.label = words.at(2)});
  const Client::Setup setup{.space = space,
                            .log = log,
                            .grants = progress.grants(slot),
                            .clock_base = clock_base(*store)};
  std::vector<std::unique_ptr<Client>> clients;
  for (unsigned thread = 0; thread < threads; ++thread) {
    // The owner's name is that of the slot: its former user is dead, and must not matter.
    const std::string owner = "slot-" + std::to_string(slot) + '-' + std::to_string(thread);
    clients.push_back(std::make_unique<Client>(setup, thread, owner, random()));
  }
  std::atomic<bool> stopping = false;
  std::vector<std::jthread> running;
  for (const auto& client : clients) {
    running.emplace_back([&stopping, &client] {
      while (!stopping.load()) client->round();
    });
  }
  disturb(setup, clients, signals, random);
  stopping.store(true);
}

}  // namespace
}  // namespace tenure::stress

int main(int count, char** words) {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  try {
    tenure::stress::run({words, words + count}, signals);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "stress_worker: %s\n", error.what());
    return 1;
  }
}
