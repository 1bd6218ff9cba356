// Many processes at once, each on its own key, and all on one key. Keys of different processes are
// different roots: within a root a space may order everything. Compared with as many that write
// and remove the minimum, and as many that use the locks of the server or its command.
#include <algorithm>
#include <array>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bench/cluster/crew.hpp"
#include "bench/cluster/etcd.hpp"
#include "bench/cluster/postgres.hpp"
#include "bench/cluster/questions.hpp"
#include "bench/names.hpp"
#include "bench/stored/ours.hpp"

namespace tenure::bench::cluster {
namespace {

using Step = Contestant::Step;
enum Who : std::uint8_t { own_keys, one_key, bare, locks_of_own, one_lock };

struct Rivals {
  std::string bare;
  std::function<Step(std::size_t client)> make_bare;
  std::string locks;  // Empty: there are none.
  std::function<std::unique_ptr<stored::Lock>(std::size_t key)> make_lock;
  bool sets_bar = false;  // The bar is 0.9 of what these locks keep, if that is lower.
  // Initializers, so that designated ones may leave members out.
  // NOLINTBEGIN(readability-redundant-member-init)
  std::string writes{};  // Other bare writes. Empty: none.
  std::function<Step(std::size_t client)> make_writes{};
  std::optional<Bar> handoff_bar{};  // Of one key, few processes, beside `locks`.
  // NOLINTEND(readability-redundant-member-init)
};

Step make_ours(Space space, const Claim& claim) {
  return [space = std::make_shared<Space>(std::move(space)), claim] {
    stored::lock_and_release(*space, claim);
  };
}

Step make_pair_of(std::shared_ptr<stored::Lock> lock) {
  return [lock = std::move(lock)] {
    lock->acquire();
    lock->release();
  };
}

// On own keys beside bare writes, and on one key beside the server's own locks.
struct Bars {
  std::optional<Bar> own_keys;
  std::optional<Bar> one_key;
  std::optional<Bar> own_keys_beside_writes = std::nullopt;
};

Claim own_key(std::size_t client) { return Path::of("own" + std::to_string(client)).exclusive(); }

void ask_for(Report& report, std::size_t clients, const Opener& open, const Rivals& rivals,
             const Bars& bars = {}) {
  std::vector<Contestant> contestants = {
      {.name = "own keys",
       .make = [&](std::size_t client) { return make_ours(open("own"), own_key(client)); }},
      {.name = "one key",
       .make = [&](std::size_t) { return make_ours(open("one"), book.exclusive()); }},
      {.name = rivals.bare, .make = rivals.make_bare}};
  const bool with_locks = !rivals.locks.empty();
  if (with_locks) {
    contestants.push_back({.name = rivals.locks, .make = [&](std::size_t client) {
                             return make_pair_of(rivals.make_lock(client + 1));
                           }});
    contestants.push_back({.name = rivals.locks,
                           .make = [&](std::size_t) { return make_pair_of(rivals.make_lock(0)); }});
  }
  const std::size_t writes = contestants.size();
  if (!rivals.writes.empty()) {
    contestants.push_back({.name = rivals.writes, .make = rivals.make_writes});
  }
  const std::size_t count = contestants.size();
  Crew crew{clients, std::move(contestants),
            std::chrono::milliseconds{report.effort().of(500, 50)}};
  Race race{report.effort()};
  for (std::size_t who = own_keys; who < count; ++who) {
    race.add_round([&crew, who] { return crew.round(who); });
  }
  race.run(6);

  const auto rate = [&race](std::size_t who) { return stored::a_second(race[who]); };
  const std::string many = std::to_string(clients) + " clients, ";
  const auto compare = [&](const char* what, Who ours, const std::string& name, std::size_t rival,
                           std::optional<Bar> bar = {}) {
    report.compare(many + what, {"", rate(ours), "/s"}, {name, rate(rival), "/s"}, bar);
  };
  compare("own keys", own_keys, rivals.bare, bare, bars.own_keys);
  if (!rivals.writes.empty()) {
    compare("own keys", own_keys, rivals.writes, writes, bars.own_keys_beside_writes);
  }
  compare("one key", one_key, rivals.bare, bare);
  if (!with_locks) return;
  compare("own keys", own_keys, rivals.locks, locks_of_own);
  compare("one key", one_key, rivals.locks, one_lock, bars.one_key);
}

// Hand-offs of one key among few processes and among many: the queue is longer, but a release wakes
// one process in both.
void ask_few_and_many(Report& report, const Opener& open, const Rivals& rivals, double least) {
  std::vector<Contestant> contestants = {{.name = "one key", .make = [&](std::size_t) {
                                            return make_ours(open("queue"), book.exclusive());
                                          }}};
  if (!rivals.locks.empty()) {
    contestants.push_back({.name = rivals.locks,
                           .make = [&](std::size_t) { return make_pair_of(rivals.make_lock(0)); }});
  }
  const std::size_t count = contestants.size();
  // Long: until 64 processes that begin at once are all in the queue, few hand-offs are made.
  const std::chrono::milliseconds time{report.effort().of(5'000, 50)};
  const std::array sizes{report.effort().of(8, 2), report.effort().of(64, 4)};
  std::array<std::unique_ptr<Crew>, 2> crews;
  Race race{report.effort()};
  for (std::size_t i = 0; i < crews.size(); ++i) {
    crews.at(i) = std::make_unique<Crew>(sizes.at(i), contestants, time);
    for (std::size_t who = 0; who < count; ++who) {
      race.add_round([&crew = *crews.at(i), who] { return crew.round(who); });
    }
  }
  race.run(4);
  const auto rate = [&](std::size_t size, std::size_t who) {
    return stored::a_second(race[(size * count) + who]);
  };
  const std::string many = "one key, " + std::to_string(sizes[1]) + " processes";
  const std::string few = std::to_string(sizes[0]) + " processes";
  double bar = least;
  if (count == 2) {
    const std::string name = many + ", " + rivals.locks;
    report.compare(name, {"", rate(1, 1), "/s"}, {few, rate(0, 1), "/s"});
    const auto median = [&](std::size_t size) { return spread_of(rate(size, 1)).median; };
    if (rivals.sets_bar) bar = std::min(bar, 0.9 * median(1) / median(0));
  }
  report.compare(many, {"", rate(1, 0), "/s"}, {few, rate(0, 0), "/s"}, at_least(bar));
  if (rivals.handoff_bar) {
    report.compare("one key, " + few, {"", rate(0, 0), "/s"}, {rivals.locks, rate(0, 1), "/s"},
                   rivals.handoff_bar);
    report.compare(many, {"", rate(1, 0), "/s"}, {rivals.locks, rate(1, 1), "/s"});
  }
}

}  // namespace

void ask_etcd_clients(Report& report) {
  const std::array sizes{report.effort().of(8, 2), report.effort().of(64, 4)};
  for (const std::size_t clients : sizes) {
    const auto server = start_etcd(report);
    if (server == nullptr) return;
    const Rivals rivals{
        .bare = "bare transactions",
        .make_bare = [&](std::size_t client) -> Step {
          auto connection =
              std::make_shared<etcd::Client>(etcd::parse_address(server->url("bare")));
          return [connection, pair = BarePair{*connection, "bare/" + std::to_string(client)}] {
            pair();
          };
        },
        .locks = has_etcdctl() ? "etcdctl lock" : "",
        .make_lock =
            [&](std::size_t key) {
              return make_etcdctl_lock(server->endpoint(), "bench" + std::to_string(key));
            },
        .writes = "bare puts + deletes",
        .make_writes =
            [&](std::size_t client) {
              return make_bare_writes(server->endpoint(), "writes/" + std::to_string(client));
            }};
    Bars bars;
    if (clients == sizes[0]) {
      bars.own_keys_beside_writes = at_least(0.7);
    } else {
      bars.own_keys = at_least(0.85);
    }
    ask_for(report, clients, etcd_opener(*server), rivals, bars);
  }
  const auto server = start_etcd(report);
  if (server == nullptr) return;
  const Rivals locks{.bare = {},
                     .make_bare = {},
                     .locks = "the algorithm of etcdctl lock",
                     .make_lock =
                         [&](std::size_t key) {
                           return make_etcd_mutex(server->endpoint(),
                                                  "queue" + std::to_string(key));
                         },
                     .handoff_bar = at_least(1.3)};
  ask_few_and_many(report, etcd_opener(*server), locks, 0.8);
}

void ask_postgres_clients(Report& report) {
  const auto server = start_postgres(report);
  if (server == nullptr) return;
  BareRow::make_table(*server);
  const Rivals rivals{
      .bare = "bare rows",
      .make_bare = [&](std::size_t client) -> Step {
        return [row = std::make_shared<BareRow>(*server, std::to_string(client))] { (*row)(); };
      },
      .locks = "pg_advisory_lock",
      .make_lock =
          [&](std::size_t key) { return make_advisory_lock(*server, static_cast<int>(key)); },
      .sets_bar = true};
  ask_for(report, report.effort().of(8, 2), postgres_opener(*server), rivals,
          {.own_keys = at_least(0.65), .one_key = at_least(0.33)});
  ask_for(report, report.effort().of(64, 4), postgres_opener(*server), rivals,
          {.own_keys = at_least(0.6), .one_key = {}});
  ask_few_and_many(report, postgres_opener(*server), rivals, 0.6);
}

}  // namespace tenure::bench::cluster
