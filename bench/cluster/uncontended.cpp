// One client: a lock and its release, compared with the minimum: one put and one delete over the
// same connection, or one row that is inserted and deleted.
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "bench/cluster/etcd.hpp"
#include "bench/cluster/postgres.hpp"
#include "bench/cluster/questions.hpp"
#include "bench/names.hpp"
#include "bench/program.hpp"
#include "bench/stored/ours.hpp"
#include "store/etcd/etcd_store.hpp"

namespace tenure::bench::cluster {
namespace {

constexpr int after_compaction = 10;  // Pairs of both, until the server is idle again.

template <class Step>
Race::Work repeat(Step step) {
  return [step](std::uint64_t operations) {
    for (std::uint64_t i = 0; i < operations; ++i) step();
  };
}

// A bar applies to a client and a server with one core each.
std::optional<Bar> bar_on(std::size_t core, Bar bar) {
  return core == server_core ? std::nullopt : std::optional{bar};
}

// The cost of a lock after so many releases since etcd was last compacted.
void ask_etcd_uncompacted(Report& report, const kit::Etcd& server, etcd::EtcdStore& store,
                          std::size_t core) {
  if (!has_etcdctl()) return report.note("not compacted: etcdctl is not installed");
  const Space space = open(store.shared_from_this());
  const auto pairs = [&](std::size_t count) {
    const auto start = std::chrono::steady_clock::now();
    for (std::size_t i = 0; i < count; ++i) stored::lock_and_release(space, book.exclusive());
    const std::chrono::duration<double, std::micro> time = std::chrono::steady_clock::now() - start;
    return Samples{time.count() / static_cast<double>(count)};
  };
  const std::size_t some = report.effort().of(100, 10);
  compact(server, store.executor());
  const Samples first = pairs(some);
  for (const std::size_t more : {report.effort().of(2'000, 20), report.effort().of(10'000, 40)}) {
    static_cast<void>(pairs(more));
    report.compare("behind " + std::to_string(more) + " more" + on_cores(core),
                   {"", pairs(some), "us"}, {"after a compaction", first, "us"});
  }
}

void ask_etcd_on(Report& report, const kit::Etcd& server, std::size_t core) {
  pin_to_core(core);  // The store's threads start on the core of this one.
  const auto store = etcd::open_etcd_alone(server.url("uncontended"));
  const Space space = open(store);
  const Claim flat = book.exclusive();
  const Claim third = book(3, "x").exclusive();
  const Claim reader = book.shared();
  Race race{report.effort(), std::chrono::milliseconds{5}};
  const auto ours = race.add(repeat([&] { stored::lock_and_release(space, flat); }));
  const auto deep = race.add(repeat([&] { stored::lock_and_release(space, third); }));
  const auto shared = race.add(repeat([&] { stored::lock_and_release(space, reader); }));
  const auto bare = race.add(repeat(BarePair{store->executor().client(), "bare"}));
  // Part of the race, but its duration does not count. Nor does the work that etcd continues
  // afterwards: it would slow the next contestant.
  if (has_etcdctl()) {
    race.add_round([&] {
      compact(server, store->executor());
      const BarePair pair{store->executor().client(), "bare"};
      for (int i = 0; i < after_compaction; ++i) {
        pair();
        stored::lock_and_release(space, flat);
      }
      return 1.0;
    });
  }
  race.run(200);

  const Samples control = stored::in_us(race[bare]);
  const Report::Side rival{.name = "bare put + delete", .samples = control, .unit = "us"};
  const std::string where = on_cores(core);
  report.compare("1 deep" + where, {"", stored::in_us(race[ours]), "us"}, rival,
                 bar_on(core, at_most(1.15)));
  report.compare("3 deep" + where, {"", stored::in_us(race[deep]), "us"}, rival);
  report.compare("1 deep, shared" + where, {"", stored::in_us(race[shared]), "us"}, rival);
  ask_etcd_uncompacted(report, server, *store, core);
  const etcd::Counts& counts = store->executor().counts();
  report.figure(
      "requests a commit" + where,
      static_cast<double>(counts.round_trips.load()) / static_cast<double>(counts.commits.load()),
      "");
}

void ask_postgres_on(Report& report, const stored::Postgres& server, std::size_t core) {
  pin_to_core(core);
  const Space space = postgres_opener(server)("uncontended");
  const Claim flat = book.exclusive();
  const Claim third = book(3, "x").exclusive();
  const BareRow row{server, "uncontended"};
  const std::unique_ptr<stored::Lock> advisory = make_advisory_lock(server, 1);
  Race race{report.effort(), std::chrono::milliseconds{20}};
  const auto ours = race.add(repeat([&] { stored::lock_and_release(space, flat); }));
  const auto deep = race.add(repeat([&] { stored::lock_and_release(space, third); }));
  const auto bare = race.add(repeat([&] { row(); }));
  const auto locks = race.add(repeat([&] {
    advisory->acquire();
    advisory->release();
  }));
  race.run(100);

  const Samples control = stored::a_second(race[bare]);
  const Samples own = stored::a_second(race[ours]);
  const Report::Side rival{.name = "a bare row", .samples = control, .unit = "/s"};
  const std::string where = on_cores(core);
  report.compare("1 deep" + where, {"", own, "/s"}, rival, bar_on(core, at_least(0.8)));
  report.compare("3 deep" + where, {"", stored::a_second(race[deep]), "/s"}, rival);
  report.compare("1 deep" + where, {"", own, "/s"},
                 {"pg_advisory_lock", stored::a_second(race[locks]), "/s"});
}

}  // namespace

void ask_etcd_uncontended(Report& report) {
  const auto server = start_etcd(report);
  if (server == nullptr) return;
  for (const std::size_t core : {client_core, server_core}) ask_etcd_on(report, *server, core);
}

void ask_postgres_uncontended(Report& report) {
  const auto server = start_postgres(report);
  if (server == nullptr) return;
  BareRow::make_table(*server);
  for (const std::size_t core : {client_core, server_core}) ask_postgres_on(report, *server, core);
}

}  // namespace tenure::bench::cluster
