// Two processes pass a lock back and forth, alternately ours and a rival's.
#include <algorithm>
#include <array>
#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "bench/cluster/etcd.hpp"
#include "bench/cluster/players.hpp"
#include "bench/cluster/postgres.hpp"
#include "bench/cluster/questions.hpp"

namespace tenure::bench::cluster {
namespace {

struct Rival {
  std::string name;  // Empty: there is none.
  Passed lock;
  std::size_t turns;  // Of a round.
};

double percentile(const Samples& sorted, double part) {
  return sorted[static_cast<std::size_t>(part * static_cast<double>(sorted.size() - 1))];
}

void ask_on(Report& report, std::size_t core, const Opener& open, const Rival& rival) {
  constexpr std::size_t own_turns = 60;
  std::vector<Passed> locks = {our_lock(open, "handoff")};
  if (!rival.name.empty()) locks.push_back(rival.lock);
  Players players{{core, core}, locks};
  static_cast<void>(players.round(0, 2));  // Connects.
  std::array<Samples, 2> all;
  for (std::size_t i = 0; i < report.effort().of(8, 1); ++i) {
    for (std::size_t which = 0; which < locks.size(); ++which) {
      const std::size_t turns = which == 0 ? own_turns : rival.turns;
      const Samples times = players.round(which, report.effort().of(turns, 2));
      all.at(which).insert(all.at(which).end(), times.begin(), times.end());
    }
  }
  for (Samples& times : all) std::ranges::sort(times);
  for (const auto& [name, part] : {std::pair{"p50", 0.5}, std::pair{"p99", 0.99}}) {
    const std::string what = std::string{"hand-off, "} + name + on_cores(core);
    const Samples own{percentile(all[0], part) / 1'000};
    if (rival.name.empty()) {
      report.figure(what, own.front(), "us");
    } else {
      report.compare(what, {"", own, "us"},
                     {rival.name, Samples{percentile(all[1], part) / 1'000}, "us"});
    }
  }
}

}  // namespace

void ask_etcd_handoff(Report& report) {
  const auto server = start_etcd(report);
  if (server == nullptr) return;
  // Includes the start of its process.
  Rival rival{.name = has_etcdctl() ? "etcdctl lock" : "",
              .lock = {.make = [at = server->endpoint()] { return make_etcdctl_lock(at, "bench"); },
                       .dwell = std::chrono::milliseconds{300}},
              .turns = 4};
  for (const std::size_t core : {client_core, server_core}) {
    ask_on(report, core, etcd_opener(*server), rival);
  }
}

void ask_postgres_handoff(Report& report) {
  const auto server = start_postgres(report);
  if (server == nullptr) return;
  const Rival rival{.name = "pg_advisory_lock",
                    .lock = {.make = [&server] { return make_advisory_lock(*server, 1); },
                             .dwell = std::chrono::milliseconds{3}},
                    .turns = 60};
  for (const std::size_t core : {client_core, server_core}) {
    ask_on(report, core, postgres_opener(*server), rival);
  }
}

}  // namespace tenure::bench::cluster
