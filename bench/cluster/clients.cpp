// Many processes at once, each on a key of its own, and all on one. Beside them as many that put
// and delete; and, where all want the same key, as many that run etcdctl lock, which start a
// process for every turn.
#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bench/cluster/crew.hpp"
#include "bench/cluster/etcd.hpp"
#include "bench/cluster/questions.hpp"
#include "bench/names.hpp"
#include "bench/stored/ours.hpp"

namespace tenure::bench::cluster {
namespace {

constexpr std::size_t rounds = 6;
enum Who : std::uint8_t { own_key, one_key, bare, by_etcdctl };

Contestant::Step make_ours(const std::string& url, const Claim& claim) {
  auto space = std::make_shared<Space>(open_etcd_space(url));
  return [space, claim] { stored::lock_and_release(*space, claim); };
}

Contestant::Step make_bare(const std::string& url, std::size_t client) {
  auto connection = std::make_shared<etcd::Client>(etcd::parse_address(url));
  return [connection, pair = BarePair{*connection, "bare/" + std::to_string(client)}] { pair(); };
}

Contestant::Step make_etcdctl(const std::string& endpoint) {
  std::shared_ptr<stored::Lock> lock = make_etcdctl_lock(endpoint);
  return [lock] {
    lock->acquire();
    lock->release();
  };
}

void ask_for(Report& report, std::size_t clients) {
  const auto server = start_etcd(report);
  if (server == nullptr) return;
  const std::string url = etcd_url(*server);
  std::vector<Contestant> contestants = {
      {.name = "own keys",
       .make = [url](std::size_t client) { return make_ours(url, book(client).exclusive()); }},
      {.name = "one key",
       .make = [url](std::size_t) { return make_ours(url + "-one", book.exclusive()); }},
      {.name = "bare puts + deletes",
       .make = [url](std::size_t client) { return make_bare(url, client); }}};
  // More of them at once than a few wait for each other's processes only.
  const bool with_etcdctl = has_etcdctl() && clients <= 8;
  if (with_etcdctl) {
    contestants.push_back({.name = "etcdctl lock", .make = [at = server->endpoint()](std::size_t) {
                             return make_etcdctl(at);
                           }});
  }
  Crew crew{clients, std::move(contestants),
            std::chrono::milliseconds{report.effort().of(500, 50)}};
  Race race{report.effort()};
  for (std::size_t who = own_key; who < by_etcdctl + (with_etcdctl ? 1U : 0U); ++who) {
    race.add_round([&crew, who] { return crew.round(who); });
  }
  race.run(rounds);
  const std::string many = std::to_string(clients) + " clients, ";
  const Samples control = stored::a_second(race[bare]);
  const Samples one = stored::a_second(race[one_key]);
  const Report::Side rival{.name = "bare puts + deletes", .samples = control, .unit = "/s"};
  report.compare(many + "own keys", {"", stored::a_second(race[own_key]), "/s"}, rival);
  report.compare(many + "one key", {"", one, "/s"}, rival);
  if (!with_etcdctl) return;
  report.compare(many + "one key", {"", one, "/s"},
                 {"etcdctl lock", stored::a_second(race[by_etcdctl]), "/s"});
}

}  // namespace

void ask_etcd_clients(Report& report) {
  ask_for(report, report.effort().of(8, 2));
  ask_for(report, report.effort().of(64, 4));
}

}  // namespace tenure::bench::cluster
