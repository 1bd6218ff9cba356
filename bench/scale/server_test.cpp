#include "bench/scale/server.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <deque>
#include <random>

#include "bench/scale/figures.hpp"

namespace tenure::bench::scale {
namespace {

constexpr int jobs = 200'000;
constexpr double service = 0.01;

// Mean time in the queue of a server with Poisson arrivals that is busy for `use` of the time.
template <typename Time>
double mean_wait(double use, Time time) {
  std::mt19937_64 random{7};
  std::exponential_distribution<double> gap{use / service};
  Server server;
  double now = 0;
  double waits = 0;
  for (int i = 0; i < jobs; ++i) {
    now += gap(random);
    waits += server.backlog(now);
    server.arrive(now, Service::fixed(time(random)));
  }
  EXPECT_NEAR(server.work() / now, use, 0.02 * use);
  return waits / jobs;
}

// Pairs of applies per second that clients reach which always have one under way.
double saturated_pairs(const Figures& kind, int clients) {
  Server server;
  std::deque<double> answers(static_cast<std::size_t>(clients), 0.0);
  double now = 0;
  for (int i = 0; i < 10'000; ++i) {
    now = answers.front();
    answers.pop_front();
    answers.push_back(server.arrive(now, kind.apply));
  }
  return 10'000 / now / 2;
}

// Pollaczek and Khinchine: use * service / (2 * (1 - use)).
TEST(ScaleServer, WaitsAsLongAsTheoryOfFixedServiceTimesSays) {
  const auto fixed = [](auto&) { return service; };
  EXPECT_NEAR(mean_wait(0.5, fixed), 0.5 * service, 0.02 * service);
  EXPECT_NEAR(mean_wait(0.8, fixed), 2 * service, 0.1 * service);
}

// M/M/1: use * service / (1 - use).
TEST(ScaleServer, WaitsAsLongAsTheoryOfRandomServiceTimesSays) {
  const auto random_time = [](auto& random) {
    return std::exponential_distribution<double>{1 / service}(random);
  };
  EXPECT_NEAR(mean_wait(0.5, random_time), service, 0.04 * service);
  EXPECT_NEAR(mean_wait(0.8, random_time), 4 * service, 0.3 * service);
}

TEST(ScaleServer, ReachesTheMeasuredRates) {
  EXPECT_NEAR(saturated_pairs(postgres_figures, 8), 3'280, 33);
  EXPECT_NEAR(saturated_pairs(postgres_figures, 64), 1'910, 19);
  EXPECT_NEAR(saturated_pairs(etcd_figures, 8), 1'850, 18);
  EXPECT_NEAR(saturated_pairs(etcd_figures, 64), 830, 8);
}

TEST(ScaleServer, IsSlowerWithMoreJobs) {
  constexpr Service apply{.few = 1, .many = 4};
  EXPECT_DOUBLE_EQ(apply.with(1), 1);
  EXPECT_DOUBLE_EQ(apply.with(8), 1);
  EXPECT_DOUBLE_EQ(apply.with(16), 2);
  EXPECT_DOUBLE_EQ(apply.with(64), 4);
  EXPECT_DOUBLE_EQ(apply.with(1'000), 4);
}

}  // namespace
}  // namespace tenure::bench::scale
