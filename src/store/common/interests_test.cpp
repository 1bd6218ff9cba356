#include "store/common/interests.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace tenure::stores {
namespace {

constexpr std::size_t most = 3;

WatchFor key(const std::string& name) { return {.ranges = {Range::key(name)}}; }

class InterestsTest : public ::testing::Test {
 protected:
  // The server tells of everything that is missing, from `since` on.
  std::string ask(Revision since = {5}, bool brief = true) {
    std::string asked;
    for (const std::string& name : interests.missing()) {
      asked += name + ' ';
      interests.hold(name, ++last_id, since, brief);
    }
    return asked;
  }
  std::size_t dropped(std::int64_t now, bool asking = false) {
    return interests.drop(now, asking).size();
  }

  Interests interests{
      most, [](const Range& range) { return range.from.empty() ? std::string{"all"} : range.from; },
      [](const std::string& session) { return "session " + session; }};
  std::int64_t last_id = 0;
};

TEST_F(InterestsTest, AreAskedForOnceAndKnownFromThenOn) {
  interests.want(key("a"));
  EXPECT_EQ(interests.since(Range::key("a")), std::nullopt);
  EXPECT_EQ(ask(), "a ");
  EXPECT_EQ(interests.since(Range::key("a")), Revision{5});
  interests.want(key("a"));
  EXPECT_EQ(ask(), "");
}

TEST_F(InterestsTest, TheEndOfASessionIsAnInterest) {
  interests.want(WatchFor{.session = "s"});
  EXPECT_EQ(ask(), "session s ");
}

TEST_F(InterestsTest, AnInterestStaysWhileAnyWatchWantsIt) {
  interests.want(key("a"));
  interests.want(key("a"));
  ask();
  interests.unwant(key("a"), 0);
  EXPECT_EQ(dropped(Interests::lasting_ns, true), 0U);
  interests.unwant(key("a"), 0);
  EXPECT_EQ(interests.drop_at(), Interests::brief_ns);
  EXPECT_EQ(dropped(0), 0U);
  EXPECT_EQ(dropped(0, true), 1U) << "with a call that is made anyway";
  EXPECT_EQ(interests.since(Range::key("a")), std::nullopt);
}

TEST_F(InterestsTest, AnInterestInWhatMayHaveChangedBeforeOutlivesTheNextCall) {
  interests.want(key("a"));
  ask({5}, false);
  interests.unwant(key("a"), 0);
  EXPECT_EQ(dropped(1, true), 0U);
  interests.want(key("a"));
  EXPECT_EQ(ask(), "");
  interests.unwant(key("a"), 10);
  EXPECT_EQ(interests.drop_at(), 10 + Interests::lasting_ns);
  EXPECT_EQ(dropped(10 + Interests::lasting_ns), 1U);
}

TEST_F(InterestsTest, AWatchThatGoesBeforeTheServerWasAskedLeavesNothing) {
  interests.want(key("a"));
  interests.unwant(key("a"), 0);
  EXPECT_EQ(ask(), "");
  interests.want(key("b"));
  const std::vector<std::string> missing = interests.missing();
  interests.unwant(key("b"), 0);
  interests.hold(missing.at(0), 1, {5}, true);  // The answer comes when nobody wants it.
  EXPECT_EQ(dropped(Interests::brief_ns), 1U);
}

TEST_F(InterestsTest, TooManyAreOneInEverything) {
  for (const char* const name : {"a", "b", "c"}) interests.want(key(name));
  EXPECT_EQ(ask(), "a b c ");
  interests.want(key("d"));
  EXPECT_EQ(ask({7}, false), "all ");
  EXPECT_EQ(ask(), "");
  EXPECT_EQ(interests.since(Range::key("a")), Revision{5});
  EXPECT_EQ(interests.since(Range::key("d")), Revision{7});
  EXPECT_EQ(dropped(2 * Interests::lasting_ns), 0U) << "d needs it";
  interests.unwant(key("a"), 0);
  EXPECT_EQ(dropped(2 * Interests::lasting_ns), 1U) << "a; d still needs everything";
  EXPECT_EQ(ask({9}), "d ");
  EXPECT_EQ(interests.since(Range::key("d")), Revision{9});
  EXPECT_EQ(dropped(2 * Interests::lasting_ns), 1U);
}

TEST_F(InterestsTest, EverythingIsEnoughIfAWatchWantsIt) {
  interests.want({.ranges = {Range{}}});
  interests.want(key("a"));
  EXPECT_EQ(ask({7}, false), "all ");
  EXPECT_EQ(interests.since(Range::key("a")), Revision{7});
  interests.unwant({.ranges = {Range{}}}, 0);
  EXPECT_EQ(dropped(Interests::lasting_ns), 0U) << "a needs it";
  EXPECT_EQ(ask({9}), "a ");
  EXPECT_EQ(dropped(Interests::lasting_ns), 1U);
}

TEST_F(InterestsTest, WhatTheServerForgotIsAskedForAgain) {
  interests.want(key("a"));
  interests.want(key("b"));
  ask();
  interests.unwant(key("b"), 0);
  interests.lose();
  EXPECT_EQ(interests.since(Range::key("a")), std::nullopt);
  EXPECT_EQ(ask({8}), "a ");
  EXPECT_EQ(interests.since(Range::key("a")), Revision{8});
  EXPECT_EQ(interests.drop_all().size(), 1U);
  EXPECT_EQ(ask(), "a ");
}

}  // namespace
}  // namespace tenure::stores
