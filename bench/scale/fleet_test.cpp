#include "bench/scale/fleet.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "space/sharded/shard_map.hpp"

namespace tenure::bench::scale {
namespace {

Fleet small_fleet() {
  return {.etcd = 2, .postgres = 3, .clients = 1'000, .locks = 500, .roots = 400};
}

Shard postgres_shard(double locks, double sessions) {
  return {.figures = &postgres_figures,
          .locks = locks,
          .sessions = sessions,
          .lease = 10,
          .contended = 0.1};
}

TEST(ScaleFleet, PutsEachRootWhereTheProductDoes) {
  const Fleet fleet = small_fleet();
  const std::vector<std::string> names{"etcd0", "etcd1", "postgres2", "postgres3", "postgres4"};
  std::vector<double> roots(names.size(), 0.0);
  for (std::size_t i = 0; i < fleet.roots; ++i) {
    const std::string& home = sharded::home_of("root" + std::to_string(i), names);
    roots[static_cast<std::size_t>(&home - names.data())] += 1;
  }
  const std::vector<Shard> shards = spread(fleet);
  ASSERT_EQ(shards.size(), names.size());
  for (std::size_t i = 0; i < shards.size(); ++i) {
    EXPECT_EQ(shards[i].figures->name, i < 2 ? "etcd" : "postgres");
    EXPECT_NEAR(shards[i].locks, 500 * roots[i] / 400, 1e-6);
    EXPECT_NEAR(shards[i].sessions, 1'000 * roots[i] / 400, 1e-6);
  }
}

TEST(ScaleFleet, ClientsOfManyRootsHaveASessionInEveryShard) {
  Fleet fleet = small_fleet();
  fleet.roots_per_client = 100;
  for (const Shard& shard : spread(fleet)) EXPECT_NEAR(shard.sessions, 1'000, 1);
}

TEST(ScaleFleet, ShardsWithoutRootsAreIdle) {
  Fleet fleet = small_fleet();
  fleet.roots = 1;
  const std::vector<Shard> shards = spread(fleet);
  const Steady steady = simulate(shards, {.seconds = 5, .seed = 1});
  EXPECT_GT(steady.use, 0);
  EXPECT_NEAR(steady.hottest_use, 5 * steady.use, 1e-9);
}

TEST(ScaleFleet, ServersAreAsBusyAsTheWorkThatArrives) {
  const Shard shard = postgres_shard(500, 5'000);
  const Steady steady = simulate({shard}, {.seconds = 50, .seed = 3});
  const double renewals = 5'000 / 2.75 * postgres_figures.renewal;
  const double listeners = 500 * 0.1 * listens_after_wait;
  const double waits =
      500 * 0.1 *
      (postgres_figures.watch + postgres_figures.look + listeners * postgres_figures.signal);
  const double use = 1'000 * postgres_figures.apply.few + renewals + waits;
  EXPECT_NEAR(steady.use, use, 0.02 * use);
  EXPECT_NEAR(steady.renewal_share, renewals / use, 0.02);
  EXPECT_DOUBLE_EQ(shard.connections(), 10'000 + listeners);
}

TEST(ScaleFleet, LoadMakesLocksSlow) {
  const Steady idle = simulate({postgres_shard(10, 10)}, {.seconds = 20, .seed = 3});
  const Steady busy = simulate({postgres_shard(2'000, 100)}, {.seconds = 20, .seed = 3});
  EXPECT_NEAR(idle.lock.p50, postgres_figures.apply.few, 1e-9);
  EXPECT_GT(busy.lock.p99, 3 * idle.lock.p99);
  EXPECT_GT(busy.handoff.p50, busy.lock.p50);
  EXPECT_LT(busy.hottest_use, 1);
}

TEST(ScaleFleet, RepeatsItselfWithTheSameSeed) {
  const std::vector<Shard> shards = spread(small_fleet());
  EXPECT_EQ(simulate(shards, {.seconds = 5, .seed = 1}).lock.p99,
            simulate(shards, {.seconds = 5, .seed = 1}).lock.p99);
  EXPECT_NE(simulate(shards, {.seconds = 5, .seed = 1}).use,
            simulate(shards, {.seconds = 5, .seed = 2}).use);
}

}  // namespace
}  // namespace tenure::bench::scale
