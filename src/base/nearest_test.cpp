#include "base/nearest.hpp"

#include <gtest/gtest.h>

#include <array>
#include <string>
#include <string_view>

namespace tenure::base {
namespace {

TEST(Nearest, CountsInsertionsRemovalsReplacementsAndSwaps) {
  EXPECT_EQ(edit_distance("", ""), 0U);
  EXPECT_EQ(edit_distance("", "abc"), 3U);
  EXPECT_EQ(edit_distance("needs", "need"), 1U);
  EXPECT_EQ(edit_distance("nedes", "needs"), 1U);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3U);
}

TEST(Nearest, FindsWhatWasProbablyMeant) {
  constexpr std::array<std::string_view, 3> known{"timeout", "retry", "needs"};
  EXPECT_EQ(nearest("timeuot", known), "timeout");
  EXPECT_EQ(nearest("need", known), "needs");
  EXPECT_EQ(nearest("x", known), "") << "nothing is near";
  EXPECT_EQ(nearest(std::string(65, 'n'), known), "");
}

}  // namespace
}  // namespace tenure::base
