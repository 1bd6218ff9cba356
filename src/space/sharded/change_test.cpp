#include "space/sharded/change.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "space/sharded/fleet_test.hpp"
#include "tenure/tenure.hpp"
#include "tests/kit/message.hpp"
#include "tests/kit/patience.hpp"

namespace tenure::sharded {
namespace {

using namespace std::chrono_literals;
using kit::contains;
using kit::message_of;

const std::vector<std::string> two{"a", "b"};
const std::vector<std::string> three{"a", "b", "c"};
const std::string stays = root_in("a", two, "a", three);
const std::string moves = root_in("a", two, "c", three);
const std::string moves_from_b = root_in("b", two, "c", three);

class ShardChange : public ::testing::Test {
 protected:
  ShardChange() {
    fleet_.set(two);
    fleet_.add("c");
  }
  Fleet fleet_{two};
};

TEST_F(ShardChange, AProgramWithTheOldMapLocksAMovedRootAtItsNewHome) {
  const Space old = fleet_.open();
  const Space in_time = fleet_.open();
  const Token before = old.lock(moves).token();
  Hold kept = old.lock(stays);
  std::optional<Hold> tried = in_time.try_lock(moves);
  tried.reset();
  fleet_.set(three);
  EXPECT_EQ(look_at_shards(fleet_.sources()).version, 3U);
  const Hold moved = old.lock(moves);
  EXPECT_GT(moved.token(), before);
  EXPECT_EQ(fleet_.locked("c"), moves);
  EXPECT_EQ(fleet_.locked("a"), stays);
  EXPECT_FALSE(in_time.try_lock(moves));
  EXPECT_FALSE(in_time.try_lock(stays));
  EXPECT_FALSE(in_time.available(moves));
  EXPECT_TRUE(kept.release());
  EXPECT_TRUE(in_time.try_lock(stays).has_value());
}

TEST_F(ShardChange, AnAsynchronousRequestFollowsTheMapToo) {
  const Space old = fleet_.open();
  EXPECT_TRUE(old.try_lock(moves).has_value());
  fleet_.set(three);
  EXPECT_TRUE(old.try_lock_for(moves, 1min).has_value());
  EXPECT_EQ(fleet_.sessions("c"), 1U);
}

TEST_F(ShardChange, IsRefusedWhileATicketOfAMovingRootLives) {
  const Space space = fleet_.open();
  std::optional<Hold> hold = space.lock(Path::of(moves, 1));
  EXPECT_TRUE(contains(message_of<Error>([&] { fleet_.set(three); }),
                       "1 live tickets are of roots that would move to another shard: '" + moves +
                           "/1' in shard 'a' (ticket " + std::to_string(hold->token().value)));
  EXPECT_EQ(look_at_shards(fleet_.sources()).version, 1U);
  // With a time to wait, nobody gets the root meanwhile; then the change is taken back.
  bool looked = false;
  EXPECT_THROW(fleet_.set(three, {.wait = 1ms},
                          [&] {
                            looked = true;
                            EXPECT_TRUE(contains(
                                message_of<StoreError>([&] { (void)space.lock(moves_from_b); }),
                                "a change of the shards to 'a b c' moves it"));
                            EXPECT_TRUE(space.try_lock(stays).has_value());
                          }),
               Error);
  EXPECT_TRUE(looked);
  EXPECT_EQ(look_at_shards(fleet_.sources()).version, 3U);
  EXPECT_EQ(look_at_shards(fleet_.sources()).names, two);
  EXPECT_TRUE(space.try_lock(moves_from_b).has_value());
  EXPECT_FALSE(space.try_lock(moves));
  fleet_.set(three, {.wait = 1h}, [&] { hold.reset(); });
  EXPECT_EQ(look_at_shards(fleet_.sources()).names, three);
  EXPECT_TRUE(space.try_lock(moves).has_value());
}

TEST_F(ShardChange, TicketsOfDeadProcessesDoNotCount) {
  const Space space = fleet_.open();
  const Hold hold = space.lock(moves);
  Txn read;
  read.reads.push_back(Range::prefix(std::string{session_prefix}));
  const Entry session = fleet_.store("a").apply(read).reads.front().front();
  fleet_.store("a").kill_session(session.key.substr(session_prefix.size()));
  fleet_.set(three);
  EXPECT_EQ(fleet_.locked("a"), "");
}

TEST_F(ShardChange, IsRefusedWhereTokensWouldFall) {
  fleet_.set(three);
  EXPECT_TRUE(contains(message_of<Error>([&] { fleet_.set(two); }),
                       "roots would move from shard 'c' to shard 'a', which issues smaller "
                       "tokens"));
  EXPECT_EQ(look_at_shards(fleet_.sources()).names, three);
  EXPECT_TRUE(look_at_shards(fleet_.sources()).changing.empty());
  // All roots move to stores that are made now.
  fleet_.add("a2");
  fleet_.add("b2");
  const Space space = fleet_.open();
  const Token before = space.lock(moves).token();
  fleet_.set({"a2", "b2"});
  EXPECT_GT(space.lock(moves).token(), before);
}

TEST_F(ShardChange, NeedsAllShardsOfBothMaps) {
  for (const std::string down : {"a", "b", "c"}) {
    fleet_.set_down(down, true);
    EXPECT_TRUE(contains(message_of<StoreError>([&] { fleet_.set(three); }),
                         "while shard '" + down + "' (memory:" + down + ") does not answer"));
    fleet_.set_down(down, false);
  }
  EXPECT_TRUE(contains(message_of<Error>([&] { fleet_.set({"a", "d"}); }),
                       "shard 'd' is not in the list of shards"));
  EXPECT_EQ(look_at_shards(fleet_.sources()).version, 1U);
}

// The map is in shards that are not named any more.
TEST_F(ShardChange, AllShardsMayBeReplacedAtOnce) {
  const Space space = fleet_.open();
  std::optional<Hold> hold = space.lock(stays);
  EXPECT_TRUE(contains(message_of<Error>([&] { fleet_.set({"c"}); }), "1 live tickets"));
  hold.reset();
  fleet_.set({"c"});
  EXPECT_TRUE(space.try_lock(stays).has_value());
  EXPECT_EQ(fleet_.sessions("c"), 1U);
}

TEST_F(ShardChange, NoSecondMapIsMadeWhileAShardIsSilent) {
  Fleet fresh{{"a", "b"}};
  fresh.set_down("b", true);
  EXPECT_THROW(fresh.set({"a"}), StoreError);
  fresh.set_down("b", false);
  fresh.set({"a"});
  EXPECT_EQ(look_at_shards(fresh.sources()).shards[1].version, 0U);
}

TEST_F(ShardChange, OneStoreCannotBeInTwoSpaces) {
  Fleet other{{"x"}};
  other.set({"x"});
  const auto both = [&] {
    std::vector<ShardSource> sources = fleet_.sources();
    for (ShardSource& source : other.sources()) sources.push_back(source);
    change_map(sources, {"a", "b", "x"}, {}, [] {});
  };
  EXPECT_TRUE(contains(message_of<Error>(both), "belongs to another sharded space"));
}

// Whether a program that reads the map now may lock the root; where it would be.
std::string lockable(Fleet& fleet, const Space& space, const std::string& root) {
  try {
    const std::optional<Hold> hold = space.try_lock(root);
    for (const std::string& name : three) {
      if (fleet.locked(name) == root) return name;
    }
    return "nowhere";
  } catch (const StoreError&) {
    return "refused";
  }
}

// The call ends at the n-th apply of any of the stores. Before the commit programs lock a moving
// root at its old home or nowhere, after it at the new home or nowhere: never at both. The same
// call again finishes the change, and the old names take it back.
TEST(ShardChangeFaults, AnInterruptedChangeNeverGivesARootTwoHomes) {
  std::string ends;
  bool failed = true;
  for (int n = 0; failed; ++n) {
    for (const bool back : {false, true}) {
      Fleet fleet{two};
      fleet.set(two);
      fleet.add("c");
      const Space stale = fleet.open();
      EXPECT_TRUE(stale.try_lock(moves).has_value());
      int left = n;
      failed = false;
      for (const std::string& name : three) {
        fleet.store(name).before_apply([&](const Txn& /*txn*/) {
          if (left-- > 0) return;
          failed = true;
          throw StoreError("interrupted");
        });
      }
      try {
        fleet.set(three, {.wait = 1h});
      } catch (const Error& error) {
        EXPECT_TRUE(failed) << error.what();
      }
      for (const std::string& name : three) fleet.store(name).before_apply(nullptr);
      const Space fresh = fleet.open();
      const std::string by_fresh = lockable(fleet, fresh, moves);
      const std::string by_stale = lockable(fleet, stale, moves);
      if (!back) ends += by_fresh.substr(0, 1) + by_stale.substr(0, 1) + " ";
      EXPECT_TRUE(by_fresh == by_stale || by_fresh == "refused" || by_stale == "refused")
          << n << ": " << by_fresh << ", " << by_stale;
      const bool committed = look_at_shards(fleet.sources()).names == three;
      if (!back || committed) {
        fleet.set(three);
        EXPECT_EQ(lockable(fleet, stale, moves), "c") << n;
        EXPECT_EQ(lockable(fleet, fresh, moves), "c") << n;
      } else {
        fleet.set(two);
        EXPECT_EQ(lockable(fleet, stale, moves), "a") << n;
        EXPECT_EQ(lockable(fleet, fresh, moves), "a") << n;
      }
    }
  }
  // The sequence: the old home, nowhere, the new home.
  EXPECT_TRUE(contains(ends, "aa ")) << ends;
  EXPECT_TRUE(contains(ends, "rr ")) << ends;
  EXPECT_TRUE(ends.ends_with("cc ")) << ends;
}

TEST_F(ShardChange, OfTwoOperatorsOneGetsAnError) {
  bool other = false;
  fleet_.store("a").before_apply([&](const Txn& txn) {
    if (txn.writes.empty() || other) return;
    other = true;
    fleet_.add("d");
    fleet_.set({"a", "b", "d"});
  });
  EXPECT_TRUE(contains(message_of<Error>([&] { fleet_.set(three); }),
                       "changed by another call at the same time, in shard 'a'"));
  fleet_.store("a").before_apply(nullptr);
  EXPECT_EQ(look_at_shards(fleet_.sources()).names, (std::vector<std::string>{"a", "b", "d"}));
}

}  // namespace
}  // namespace tenure::sharded
