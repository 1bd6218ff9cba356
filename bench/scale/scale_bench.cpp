// A simulated fleet: how many servers a million clients need, and what an outage does to them.
// docs/scale.md has the figures. Nothing is measured here, so nothing has a bar: the model is
// checked by its unit tests, and its input is in figures.hpp.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "bench/program.hpp"
#include "bench/scale/fleet.hpp"
#include "bench/scale/herd.hpp"

namespace tenure::bench::scale {
namespace {

constexpr std::uint64_t seed = 18;
constexpr double ms = 1e3;
constexpr std::size_t brief_divisor = 100;  // Of clients and locks, in a brief run.

Fleet fleet_of(const Report& report, std::size_t etcd, std::size_t postgres, double lease) {
  Fleet fleet{.etcd = etcd, .postgres = postgres, .lease = lease};
  if (report.effort().brief) {
    fleet.clients /= brief_divisor;
    fleet.locks /= brief_divisor;
    fleet.roots /= brief_divisor;
  }
  return fleet;
}

void print_steady(const Report& report, const Fleet& fleet) {
  const std::vector<Shard> shards = spread(fleet);
  const Steady steady =
      simulate(shards, {.seconds = report.effort().brief ? 0.2 : 2, .seed = seed});
  const double connections = std::ranges::max(shards, {}, &Shard::connections).connections();
  (void)std::printf("  %5zu %5zu %6.0f s %7.2f %8.2f %7.0f %% %11.0f ", fleet.etcd, fleet.postgres,
                    fleet.lease, steady.use, steady.hottest_use, steady.renewal_share * 100,
                    connections);
  if (steady.hottest_use >= 1) {
    (void)std::fputs("  overloaded\n", stdout);
    return;
  }
  (void)std::printf("%9.2f %7.2f %9.2f %7.2f\n", steady.lock.p50 * ms, steady.lock.p99 * ms,
                    steady.handoff.p50 * ms, steady.handoff.p99 * ms);
}

void steady_heading() {
  (void)std::fputs(
      "   etcd    pg    lease     use  hottest  renewals  connections  lock p50     p99  hand-off"
      "     p99 ms\n",
      stdout);
}

void ask_steady(Report& report) {
  using Row = std::array<std::size_t, 2>;
  const std::vector<Row> rows = {{100, 0}, {150, 0},  {200, 0},  {256, 0}, {0, 60},
                                 {0, 80},  {0, 100},  {0, 120},  {0, 160}, {0, 256},
                                 {64, 64}, {128, 64}, {128, 128}};
  for (const double lease : {10.0, 60.0}) {
    steady_heading();
    for (const Row& row : rows) print_steady(report, fleet_of(report, row[0], row[1], lease));
    if (report.effort().brief) return;
  }
  report.note("a client that uses 4 and 16 roots, in several shards");
  for (const std::size_t roots : {4U, 16U}) {
    for (const double lease : {10.0, 60.0}) {
      Fleet fleet = fleet_of(report, 0, 120, lease);
      fleet.roots_per_client = roots;
      print_steady(report, fleet);
    }
  }
}

std::string text_of(const std::optional<double>& seconds) {
  if (!seconds) return "> 120 s";
  std::array<char, 32> text{};
  (void)std::snprintf(text.data(), text.size(), "%.1f s", *seconds);
  return text.data();
}

// One server with that many clients, each of which locks once in ten seconds.
void print_recovery(const Report& report, const Figures& kind, double clients, double lease,
                    const Outage& outage) {
  const Fleet fleet;
  const Shard shard{.figures = &kind,
                    .locks = clients * fleet.locks / fleet.clients,
                    .sessions = clients,
                    .lease = lease,
                    .contended = fleet.contended};
  const Run run{.seconds = report.effort().brief ? 10.0 : 120.0, .seed = seed};
  const Recovery served = recover(shard, outage, Late::serves, run);
  const Recovery dropped = recover(shard, outage, Late::drops, run);
  (void)std::printf("  %-9s %7.0f %8.0f %5.0f s %6.0f s %9s %6.2f %5.0f %% %11s %6.2f %5.0f %%\n",
                    std::string{kind.name}.c_str(), fleet.clients / clients, clients, lease,
                    outage.seconds, text_of(served.seconds).c_str(), served.lost,
                    served.given_up * 100, text_of(dropped.seconds).c_str(), dropped.lost,
                    dropped.given_up * 100);
}

void print_recoveries(Report& report, const Outage& outage) {
  (void)std::fputs(
      "                              server:     |   serves late jobs       |  drops late jobs\n"
      "            servers  clients   lease   outage  recovered  lost  late   recovered   lost  "
      "late\n",
      stdout);
  for (const double lease : {10.0, 60.0}) {
    for (const Figures* kind : {&etcd_figures, &postgres_figures}) {
      for (const double clients : {250.0, 500.0, 1000.0, 2000.0, 4000.0, 8000.0}) {
        print_recovery(report, *kind, clients, lease, outage);
        if (report.effort().brief) break;
      }
    }
  }
}

void ask_restart(Report& report) { print_recoveries(report, {.seconds = 5}); }

void ask_partition(Report& report) {
  for (const double seconds : {3.0, 60.0}) {
    print_recoveries(report, {.seconds = seconds, .silent = true});
  }
}

constexpr std::array<Question, 3> questions{{
    {.name = "scale_steady",
     .text = "servers for 1,000,000 clients and 100,000 locks per second, simulated",
     .ask = ask_steady},
    {.name = "scale_restart",
     .text = "the clients of a server after its restart, simulated",
     .ask = ask_restart},
    {.name = "scale_partition",
     .text = "the clients of a server after a partition, simulated",
     .ask = ask_partition},
}};

}  // namespace
}  // namespace tenure::bench::scale

int main(int argc, char** argv) {
  return tenure::bench::run_program(argc, argv, tenure::bench::scale::questions);
}
