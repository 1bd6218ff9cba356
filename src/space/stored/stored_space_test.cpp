#include "space/stored/stored_space.hpp"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <random>
#include <vector>

#include "space/rehearsal.hpp"
#include "tenure/memory_store.hpp"

namespace tenure::stored {
namespace {

// Goal: whatever is asked in whatever order, what a space in a store does is what the rule says.
void play(const std::vector<std::uint8_t>& script, std::size_t& grants, std::size_t& waits) {
  const auto store = std::make_shared<MemoryStore>(MemoryStore::Clock::virtual_time);
  Rehearsal rehearsal{new StoredSpace{store, {}}, [&store] { store->settle(); }};
  rehearsal.play(script);
  grants += rehearsal.grants();
  waits += rehearsal.waits();
}

RC_GTEST_PROP(StoredSpace, ObeysTheRuleOnEveryScript, (const std::vector<std::uint8_t>& script)) {
  std::size_t grants = 0;
  std::size_t waits = 0;
  play(script, grants, waits);
}

TEST(StoredSpace, ObeysTheRuleOnLongScripts) {
  std::size_t grants = 0;
  std::size_t waits = 0;
  for (unsigned seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random{seed};
    std::vector<std::uint8_t> script(2000);
    for (auto& byte : script) byte = static_cast<std::uint8_t>(random());
    ASSERT_NO_THROW(play(script, grants, waits));
  }
  EXPECT_GT(grants, 3'000U);
  EXPECT_GT(waits, 1'500U);
}

}  // namespace
}  // namespace tenure::stored
