// NOTIFY wakes every listening connection of its database, whatever it waits for. Each database of
// the question has some processes that wait for something else; pairs and hand-offs run beside
// them, and in a database without any. All databases are on one server: what hundreds of idle
// connections cost a writer, bare writes too, is the same in each.
#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bench/cluster/players.hpp"
#include "bench/cluster/postgres.hpp"
#include "bench/cluster/questions.hpp"
#include "bench/names.hpp"
#include "bench/ring.hpp"
#include "bench/stored/child.hpp"
#include "bench/stored/ours.hpp"
#include "tenure/locker.hpp"

namespace tenure::bench::cluster {
namespace {

constexpr const char* space_name = "listeners";

Detached wait_for_good(Locker space) { Hold hold = co_await space.async_lock(film.exclusive()); }

// The first one holds the lock that all others wait for.
void listen(const Opener& open, bool first, const stored::Line& line) {
  std::optional<Space> space;
  std::optional<Hold> hold;
  while (line.next()) {
    space.emplace(open(space_name));
    if (first) {
      hold.emplace(space->lock(film));
    } else {
      wait_for_good(*space);
    }
    line.send({});
  }
}

std::string beside(const char* what, std::size_t listeners) {
  return std::string{what} + ", " + std::to_string(listeners) + " listening";
}

}  // namespace

void ask_postgres_listeners(Report& report) {
  const auto server = start_postgres(report);
  if (server == nullptr) return;
  const Effort effort = report.effort();
  const std::vector<std::size_t> counts =
      effort.brief ? std::vector<std::size_t>{0, 2} : std::vector<std::size_t>{0, 1, 10, 100, 500};
  std::vector<Opener> openers;
  std::vector<Passed> locks;
  std::vector<stored::Child> listeners;
  for (const std::size_t count : counts) {
    const std::string database = "beside" + std::to_string(count);
    server->make_database(database);
    const Opener& open = openers.emplace_back(postgres_opener(*server, database));
    locks.push_back(our_lock(open, space_name));
    for (std::size_t i = 0; count > 0 && i <= count; ++i) {
      stored::Child& child = listeners.emplace_back(
          client_core, [open, i](const stored::Line& line) { listen(open, i == 0, line); });
      child.ask({});
    }
  }
  Players players{{client_core, client_core}, locks};
  std::vector<Space> spaces;
  for (const Opener& open : openers) spaces.push_back(open(space_name));

  Race race{effort, std::chrono::milliseconds{20}};
  for (const Space& space : spaces) {
    race.add([&space](std::uint64_t operations) {
      const Claim claim = book(1).exclusive();
      for (std::uint64_t i = 0; i < operations; ++i) stored::lock_and_release(space, claim);
    });
  }
  race.run(30);
  for (std::size_t i = 1; i < counts.size(); ++i) {
    report.compare(beside("pairs", counts[i]), {"", stored::a_second(race[i]), "/s"},
                   {"nobody listens", stored::a_second(race[0]), "/s"}, at_least(0.9));
  }

  Race handoffs{effort};
  for (std::size_t i = 0; i < counts.size(); ++i) {
    static_cast<void>(players.round(i, 2));  // Connects.
    handoffs.add_round(
        [&players, &effort, i] { return spread_of(players.round(i, effort.of(10, 2))).median; });
  }
  handoffs.run(10);
  for (std::size_t i = 1; i < counts.size(); ++i) {
    report.compare(beside("hand-off, p50", counts[i]), {"", stored::in_us(handoffs[i]), "us"},
                   {"these two only", stored::in_us(handoffs[0]), "us"});
  }
}

}  // namespace tenure::bench::cluster
