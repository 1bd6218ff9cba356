// Durable transactions of one process, one at a time and many at once, compared with bare inserts
// and puts of one client and, as pgbench does, of fifty; and the cost of a process's puts for its
// own locks.
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bench/cluster/etcd.hpp"
#include "bench/cluster/postgres.hpp"
#include "bench/cluster/questions.hpp"
#include "bench/program.hpp"
#include "bench/stored/durable.hpp"
#include "rpc.pb.h"
#include "store/etcd/etcd_store.hpp"

namespace tenure::bench::cluster {
namespace {

struct Contender {
  std::string name;
  std::size_t place;
};

std::vector<Contender> add_depths(Race& race,
                                  std::vector<std::unique_ptr<stored::Durable>>& durable,
                                  Store& store) {
  std::vector<Contender> found;
  for (const std::size_t depth : std::array<std::size_t, 3>{1, 16, 256}) {
    durable.push_back(std::make_unique<stored::Durable>(store, depth));
    found.push_back({std::to_string(depth) + " at a time",
                     race.add([one = durable.back().get()](std::uint64_t operations) {
                       one->run(operations);
                     })});
  }
  return found;
}

void ask_puts_on(Report& report, const std::string& kind, const std::shared_ptr<Store>& store) {
  const Space space = open(store, patient);
  const std::size_t count = report.effort().of(20, 2);
  Race race{report.effort()};
  const auto with = race.add_round([&] { return stored::pair_ns(space, store.get(), count); });
  const auto without = race.add_round([&] { return stored::pair_ns(space, nullptr, count); });
  race.run(100);
  report.compare("lock + release after a put, " + kind, {"", stored::a_second(race[with]), "/s"},
                 {"without", stored::a_second(race[without]), "/s"}, at_least(0.9));
}

}  // namespace

void ask_postgres_durable(Report& report) {
  const auto server = start_postgres(report);
  if (server == nullptr) return;
  const auto ours = store(server->url() + "&tenure_schema=durable");
  ask_puts_on(report, "postgres", ours);
  InsertCrew inserts{*server};
  Race race{report.effort(), std::chrono::milliseconds{100}};
  const auto bare = race.add([&](std::uint64_t operations) { inserts.run_alone(operations); });
  const auto pgbench = race.add([&](std::uint64_t operations) { inserts.run(operations); });
  std::vector<std::unique_ptr<stored::Durable>> durable;
  const auto depths = add_depths(race, durable, *ours);
  race.run(20);
  const Samples one = stored::a_second(race[bare]);
  const Samples fifty = stored::a_second(race[pgbench]);
  for (const Contender& depth : depths) {
    const Samples rate = stored::a_second(race[depth.place]);
    report.compare(depth.name, {"", rate, "/s"}, {"inserts of one client", one, "/s"});
    report.compare(depth.name, {"", rate, "/s"}, {"inserts of 50 clients", fifty, "/s"},
                   &depth == &depths.back() ? std::optional{at_least(3)} : std::nullopt);
  }
}

void ask_etcd_durable(Report& report) {
  const auto server = start_etcd(report);
  if (server == nullptr) return;
  const auto ours = etcd::open_etcd_alone(server->url("durable"));
  ask_puts_on(report, "etcd", ours);
  Race race{report.effort(), std::chrono::milliseconds{30}};
  const auto bare = race.add([&](std::uint64_t operations) {
    for (std::uint64_t i = 0; i < operations; ++i) {
      etcd::pb::TxnRequest put;
      auto* const what = put.add_success()->mutable_request_put();
      what->set_key("bare/" + std::to_string(i % stored::durable_rows));
      what->set_value(std::string(150, 'x'));
      etcd::pb::TxnResponse response;
      ours->executor().client().txn(put, response, true);
    }
  });
  std::vector<std::unique_ptr<stored::Durable>> durable;
  const auto depths = add_depths(race, durable, *ours);
  race.run(40);
  const Samples control = stored::a_second(race[bare]);
  for (const Contender& depth : depths) {
    report.compare(depth.name, {"", stored::a_second(race[depth.place]), "/s"},
                   {"bare puts, one by one", control, "/s"});
  }
}

}  // namespace tenure::bench::cluster
