// Many processes at once, each on its own key, and all on one key. Compared with as many that write
// and remove the minimum, and as many that use the locks of the server or its command.
#include <chrono>
#include <functional>
#include <memory>
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

void ask_for(Report& report, std::size_t clients, const Opener& open, const Rivals& rivals) {
  std::vector<Contestant> contestants = {
      {.name = "own keys",
       .make =
           [&](std::size_t client) { return make_ours(open("own"), book(client).exclusive()); }},
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
  const std::size_t count = contestants.size();
  Crew crew{clients, std::move(contestants),
            std::chrono::milliseconds{report.effort().of(500, 50)}};
  Race race{report.effort()};
  for (std::size_t who = own_keys; who < count; ++who) {
    race.add_round([&crew, who] { return crew.round(who); });
  }
  race.run(6);

  const auto rate = [&race](Who who) { return stored::a_second(race[who]); };
  const std::string many = std::to_string(clients) + " clients, ";
  const auto compare = [&](const char* what, Who ours, const std::string& name, Who rival) {
    report.compare(many + what, {"", rate(ours), "/s"}, {name, rate(rival), "/s"});
  };
  compare("own keys", own_keys, rivals.bare, bare);
  compare("one key", one_key, rivals.bare, bare);
  if (!with_locks) return;
  compare("own keys", own_keys, rivals.locks, locks_of_own);
  compare("one key", one_key, rivals.locks, one_lock);
}

}  // namespace

void ask_etcd_clients(Report& report) {
  for (const std::size_t clients : {report.effort().of(8, 2), report.effort().of(64, 4)}) {
    const auto server = start_etcd(report);
    if (server == nullptr) return;
    const Rivals rivals{
        .bare = "bare puts + deletes",
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
            }};
    ask_for(report, clients, etcd_opener(*server), rivals);
  }
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
          [&](std::size_t key) { return make_advisory_lock(*server, static_cast<int>(key)); }};
  for (const std::size_t clients : {report.effort().of(8, 2), report.effort().of(64, 4)}) {
    ask_for(report, clients, postgres_opener(*server), rivals);
  }
}

}  // namespace tenure::bench::cluster
