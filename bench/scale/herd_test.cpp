#include "bench/scale/herd.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>

namespace tenure::bench::scale {
namespace {

Shard herd_of(const Figures& kind, double clients, double lease) {
  return {.figures = &kind,
          .locks = clients / 10,
          .sessions = clients,
          .lease = lease,
          .contended = 0.05};
}

class ScaleHerd : public testing::TestWithParam<const Figures*> {};
INSTANTIATE_TEST_SUITE_P(Kinds, ScaleHerd, testing::Values(&etcd_figures, &postgres_figures),
                         [](const auto& param) { return std::string{param.param->name}; });

TEST_P(ScaleHerd, WithoutAnOutageNothingHappens) {
  const Recovery recovery = recover(herd_of(*GetParam(), 100, 10), {.silent = true}, Late::serves,
                                    {.seconds = 60, .seed = 1});
  EXPECT_EQ(recovery.seconds, 0);
  EXPECT_EQ(recovery.lost, 0);
  EXPECT_EQ(recovery.given_up, 0);
}

TEST_P(ScaleHerd, KeepsItsSessionsThroughAShortRestart) {
  const Recovery recovery = recover(herd_of(*GetParam(), 200, 60), {.seconds = 5}, Late::serves,
                                    {.seconds = 60, .seed = 1});
  EXPECT_EQ(recovery.lost, 0);
  ASSERT_TRUE(recovery.seconds);
  EXPECT_GT(*recovery.seconds, 0);
  EXPECT_LT(*recovery.seconds, 5);
}

TEST_P(ScaleHerd, LosesEachSessionOnceInAnOutageThatOutlastsTheLease) {
  for (const bool silent : {false, true}) {
    const Recovery recovery =
        recover(herd_of(*GetParam(), 200, 10), {.seconds = 30, .silent = silent}, Late::serves,
                {.seconds = 60, .seed = 1});
    EXPECT_EQ(recovery.lost, 1);
    ASSERT_TRUE(recovery.seconds);
    EXPECT_LT(*recovery.seconds, 10);
  }
}

// The connections of 8,000 clients are more work than clients wait for.
TEST_P(ScaleHerd, ThatIsTooLargeNeverReturnsToAServerThatServesLateJobs) {
  const Recovery recovery = recover(herd_of(*GetParam(), 8'000, 10), {.seconds = 5}, Late::serves,
                                    {.seconds = 15, .seed = 1});
  EXPECT_FALSE(recovery.seconds);
  EXPECT_GT(recovery.given_up, 0.5);
  EXPECT_GT(recovery.backlog, GetParam()->connect_limit);
}

TEST_P(ScaleHerd, WaitsNoLongerThanClientsDoForAServerThatDropsLateJobs) {
  const Recovery recovery = recover(herd_of(*GetParam(), 8'000, 60), {.seconds = 5}, Late::drops,
                                    {.seconds = 15, .seed = 1});
  const double longest = std::max(GetParam()->connect_limit, GetParam()->call_limit);
  EXPECT_LE(recovery.backlog, longest + GetParam()->connect);
}

TEST_P(ScaleHerd, RepeatsItselfWithTheSameSeed) {
  const auto seconds = [](std::uint64_t seed) {
    return recover(herd_of(*GetParam(), 300, 10), {.seconds = 5}, Late::serves,
                   {.seconds = 60, .seed = seed})
        .seconds;
  };
  EXPECT_EQ(seconds(1), seconds(1));
  EXPECT_NE(seconds(1), seconds(2));
}

}  // namespace
}  // namespace tenure::bench::scale
