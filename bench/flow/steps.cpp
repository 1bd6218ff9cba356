// 1,000 workflows of ten steps that do nothing, each result synced. Rivals: a loop of one synced
// transaction of a single row; inserts of fifty clients, as pgbench does them.
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "bench/cluster/postgres.hpp"
#include "bench/flow/questions.hpp"
#include "bench/flow/runs.hpp"
#include "bench/stored/questions.hpp"
#include "bench/stored/sqlite.hpp"
#include "bench/stored/supervise.hpp"
#include "bench/syncs.hpp"

namespace tenure::bench::flow {
namespace {

constexpr std::size_t rounds = 5;

struct Depth {
  std::size_t workflows;  // At a time.
  std::size_t of_round;
  double bar;  // Times the loop.
};

}  // namespace

void ask_steps(Report& report) {
  stored::SyncedRows rows{stored::scratch_path("loop")};
  const std::size_t loop = report.effort().of(500, 5);
  for (const Depth& depth : {Depth{.workflows = 1, .of_round = 50, .bar = 0.75},
                             Depth{.workflows = 50, .of_round = 1000, .bar = 10},
                             Depth{.workflows = 500, .of_round = 1000, .bar = 25}}) {
    Runs runs{sqlite_url("flow"), depth.workflows};
    const std::size_t workflows = report.effort().of(depth.of_round, 5);
    runs.run(workflows);  // Warm.
    Race race{report.effort()};
    const auto bare = race.add_round([&] { return rows.put_ns(loop); });
    std::uint64_t synced = 0;
    std::size_t ended = 0;
    const auto ours = race.add_round([&] {
      const std::uint64_t before = syncs();
      const double time = runs.run(workflows);
      synced += syncs() - before;
      ended += workflows;
      return time;
    });
    race.run(rounds);
    const std::string at_a_time = std::to_string(depth.workflows) + " at a time";
    const Samples rate = stored::a_second(race[ours]);
    const Samples loop_rate = stored::a_second(race[bare]);
    report.compare("steps, " + at_a_time, {"", rate, "/s"}, {"synced rows", loop_rate, "/s"},
                   at_least(depth.bar));
    const bool fast_disk = spread_of(loop_rate).median >= 3'500;
    const bool fifty = depth.workflows == 50;
    if (fifty && fast_disk) {
      report.figure("steps per second", spread_of(rate).median, "/s", at_least(45'000));
    }
    report.figure("transactions per sync, " + at_a_time,
                  static_cast<double>(ended * commits_of_one) / static_cast<double>(synced), "",
                  fifty ? std::optional{at_least(20)} : std::nullopt);
  }
}

void ask_postgres(Report& report) {
  const auto server = cluster::start_postgres(report);
  if (server == nullptr) return;
  cluster::InsertCrew inserts{*server};
  for (const Depth& depth : {Depth{.workflows = 50, .of_round = 200, .bar = 3},
                             Depth{.workflows = 500, .of_round = 1000, .bar = 0}}) {
    Runs runs{server->url() + "&tenure_schema=flow" + std::to_string(depth.workflows),
              depth.workflows};
    const std::size_t workflows = report.effort().of(depth.of_round, 5);
    runs.run(workflows);  // Warm.
    Race race{report.effort(), std::chrono::milliseconds{100}};
    const auto bare = race.add([&](std::uint64_t operations) { inserts.run(operations); });
    const auto ours = race.add_round([&] { return runs.run(workflows); });
    race.run(11);
    report.compare("steps, " + std::to_string(depth.workflows) + " at a time",
                   {"", stored::a_second(race[ours]), "/s"},
                   {"inserts of 50 clients", stored::a_second(race[bare]), "/s"},
                   depth.bar > 0 ? std::optional{at_least(depth.bar)} : std::nullopt);
  }
}

}  // namespace tenure::bench::flow
