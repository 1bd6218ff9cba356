#include "space/local/local_space.hpp"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <cstdint>
#include <random>
#include <vector>

#include "space/rule_replay.hpp"

namespace tenure::local {
namespace {

// Goal: for every sequence of calls, the lock table does what the rule says.
RC_GTEST_PROP(LocalSpace, ObeysTheRuleOnEveryScript, (const std::vector<std::uint8_t>& script)) {
  RuleReplay replay{new LocalSpace};
  replay.play(script);
}

// Longer scripts than RapidCheck makes, so that queues build up.
TEST(LocalSpace, ObeysTheRuleOnLongScripts) {
  std::size_t grants = 0;
  std::size_t waits = 0;
  std::size_t crowds = 0;
  for (unsigned seed = 0; seed < 500; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random{seed};
    std::vector<std::uint8_t> script(2000);
    for (auto& byte : script) byte = static_cast<std::uint8_t>(random());
    RuleReplay replay{new LocalSpace};
    ASSERT_NO_THROW(replay.play(script));
    grants += replay.grants();
    waits += replay.waits();
    crowds += replay.crowds();
  }
  // The scripts are worth something only if much is granted, much has to wait, and shards are
  // filled.
  EXPECT_GT(grants, 18'000U);
  EXPECT_GT(waits, 10'000U);
  EXPECT_GT(crowds, 4'000U);
}

}  // namespace
}  // namespace tenure::local
