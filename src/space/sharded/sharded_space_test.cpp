#include "space/sharded/sharded_space.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <latch>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "space/any_space_test.hpp"
#include "space/sharded/fleet_test.hpp"
#include "tenure/tenure.hpp"
#include "tests/kit/message.hpp"
#include "tests/kit/patience.hpp"
#include "tests/kit/scratch.hpp"

namespace tenure::sharded {
namespace {

using namespace std::chrono_literals;
using kit::contains;
using kit::message_of;

const std::vector<std::string> names{"a", "b", "c"};
const std::string in_a = root_in("a", names);
const std::string in_b = root_in("b", names);
const std::string in_c = root_in("c", names);

class Sharded : public ::testing::Test {
 protected:
  Sharded() { fleet_.set(names); }
  Fleet fleet_{names};
};

TEST_F(Sharded, APathIsLockedInTheHomeOfItsRootAndNowhereElse) {
  const Space space = fleet_.open();
  Hold hold = space.lock(Path::of(in_b, "chapter", 7));
  EXPECT_EQ(fleet_.locked("b"), in_b + "/chapter/7");
  EXPECT_EQ(fleet_.locked("a") + fleet_.locked("c"), "");
  EXPECT_EQ(fleet_.sessions("a"), 0U);
  EXPECT_EQ(fleet_.sessions("b"), 1U);
  EXPECT_FALSE(space.try_lock(in_b));
  EXPECT_FALSE(space.available(in_b));
  EXPECT_TRUE(space.available(in_a));
  EXPECT_TRUE(hold.release());
  EXPECT_EQ(fleet_.locked("b"), "");
}

TEST_F(Sharded, ClaimsInDifferentShardsAreRefusedWithWhatToDo) {
  const Space space = fleet_.open();
  const auto both = [&] { (void)space.lock({Claim{Path::of(in_a)}, Claim{Path::of(in_b, 1)}}); };
  EXPECT_EQ(message_of<BadRequest>(both),
            "the claims of one request must lie in one shard, but '" + in_a + "' is in 'a', '" +
                in_b +
                "/1' in 'b': lock them one after the other, in the same "
                "order everywhere, or give paths that belong together the same first segment");
  EXPECT_TRUE(contains(message_of<BadRequest>([&] { (void)space.lock(Path{}); }),
                       "lies in all shards of this space"));
  EXPECT_TRUE(contains(message_of<BadRequest>([&] { (void)space.available(Path{}); }), "shards"));
  EXPECT_THROW((void)space.try_lock_for(Path{}, 1s), BadRequest);
  EXPECT_THROW((void)space.lock(std::span<const Claim>{}), BadRequest);
  EXPECT_EQ(space.inspect().size(), 0U);
  const Hold two = space.lock({Claim{Path::of(in_a, 1)}, Claim{Path::of(in_a, 2)}});
  EXPECT_EQ(space.inspect().size(), 1U);
}

TEST_F(Sharded, AShardThatIsDownAffectsItsOwnRootsOnly) {
  fleet_.set_down("b", true);
  const Space space = fleet_.open();
  const Hold a = space.lock(in_a);
  const Hold c = space.lock(in_c);
  const std::string why =
      "shard 'b' (memory:b) cannot be used, so requests for the paths in it "
      "fail: it is down";
  EXPECT_EQ(message_of<StoreError>([&] { (void)space.lock(in_b); }), why);
  EXPECT_EQ(message_of<StoreError>([&] { (void)space.try_lock(in_b); }), why);
  EXPECT_EQ(message_of<StoreError>([&] { (void)space.try_lock_for(in_b, 10s); }), why);
  EXPECT_EQ(message_of<StoreError>([&] { (void)space.try_lock_for(in_b, 0s); }), why);
  EXPECT_EQ(message_of<StoreError>([&] { (void)space.inspect(Path::of(in_b)); }), why);
  const std::vector<TicketInfo> all = space.inspect();
  ASSERT_EQ(all.size(), 3U);
  EXPECT_TRUE(all[1].ticket.claims.empty());
  EXPECT_EQ(all[1].fault, why);
  EXPECT_EQ(all[2].ticket.number, c.token());
  fleet_.set_down("b", false);
  std::optional<Hold> b;
  kit::until([&] {
    try {
      b = space.try_lock(in_b);
    } catch (const StoreError&) {  // Until it is asked again.
    }
    return b.has_value();
  });
  EXPECT_EQ(space.inspect().size(), 3U);
}

TEST_F(Sharded, NoShardAtAllIsAnErrorAndSoIsNoMap) {
  for (const std::string& name : names) fleet_.set_down(name, true);
  EXPECT_TRUE(contains(message_of<StoreError>([&] { (void)fleet_.open(); }), "it is down"));
  Fleet empty{names};
  EXPECT_TRUE(contains(message_of<Error>([&] { (void)empty.open(); }), "tenure shards set"));
}

TEST_F(Sharded, AShardThatThisProcessDoesNotListIsNamed) {
  std::vector<ShardSource> two = fleet_.sources();
  std::erase_if(two, [](const ShardSource& source) { return source.name == "b"; });
  const Space space = detail::SpaceAccess::make(ShardedSpace::open(two, SessionOptions{}));
  EXPECT_TRUE(space.try_lock(in_a).has_value());
  EXPECT_TRUE(contains(message_of<StoreError>([&] { (void)space.lock(in_b); }),
                       "shard 'b' is in the map of this sharded space, but not in this process's "
                       "list"));
}

// A caller that must not wait for a server does not wait until its shard is open either.
TEST_F(Sharded, AShardThatOpensSlowlyKeepsNobodyElseWaiting) {
  std::latch may_open{1};
  const Space space = fleet_.open();
  fleet_.on_open([&may_open](const std::string& name) {
    if (name == "b") may_open.wait();
  });
  EXPECT_FALSE(space.try_lock_for(in_b, 1ms));
  EXPECT_FALSE(space.try_lock_for(in_b, 0ms));
  std::optional<Hold> late;
  std::jthread waiter{[&] { late = space.try_lock_for(in_b, 1h); }};
  std::atomic<bool> called = false;
  space.async_lock(in_b).then([&](const std::exception_ptr& error, std::optional<Hold> hold) {
    EXPECT_EQ(error, nullptr);
    hold.reset();
    called = true;
  });
  const Hold a = space.lock(in_a);
  EXPECT_FALSE(called);
  may_open.count_down();
  waiter.join();
  ASSERT_TRUE(late.has_value());
  EXPECT_TRUE(late->release());
  kit::until([&] { return called.load(); });
  kit::until([&] { return fleet_.locked("b").empty(); });
}

TEST_F(Sharded, ClosingEndsRequestsForAShardThatIsNotOpenYet) {
  // The thread that opens the shard may outlive the test.
  const auto may_open = std::make_shared<std::latch>(1);
  const auto opening = std::make_shared<std::latch>(1);
  std::optional<Space> space = fleet_.open();
  fleet_.on_open([may_open, opening](const std::string& /*name*/) {
    opening->count_down();
    may_open->wait();
  });
  std::atomic<int> closed = 0;
  space->async_lock(in_b).then([&](const std::exception_ptr& error, std::optional<Hold> /*hold*/) {
    try {
      std::rethrow_exception(error);
    } catch (const Closed&) {
      ++closed;
    }
  });
  opening->wait();
  space.reset();
  kit::until([&] { return closed == 1; });
  may_open->count_down();
}

TEST_F(Sharded, HoldsWorkAsInOneStore) {
  const Space space = fleet_.open();
  std::optional<Hold> hold = space.as("job").label("sync").max_hold(1h).lock(in_b);
  EXPECT_TRUE(hold->deadline().has_value());
  EXPECT_TRUE(hold->renew());
  EXPECT_EQ(hold->claims().size(), 1U);
  EXPECT_EQ(hold->guard().size(), 1U);
  EXPECT_THROW((void)space.as("job").lock(in_b), Deadlock);
  hold->downgrade(Claim{Path::of(in_b), Mode::shared()});
  EXPECT_TRUE(space.try_lock(Claim{Path::of(in_b), Mode::shared()}).has_value());
  const std::stop_token lost = hold->lost();
  const std::stop_token asked = hold->asked_to_leave();
  EXPECT_TRUE(space.ask_to_leave(hold->token()));
  kit::until([&] { return asked.stop_requested(); });
  EXPECT_TRUE(space.evict_now(hold->token()));
  kit::until([&] { return lost.stop_requested(); });
  EXPECT_FALSE(hold->release());
  EXPECT_TRUE(space.lock(in_b).release(TxnPart{.guards = {}, .writes = {Write::put("done", "1")}}));
  EXPECT_THROW((void)space.anchored("no such key").lock(in_b), AnchorLost);
}

TEST_F(Sharded, AHoldOutlivesItsSpaceAndANextWaiterOfAnotherProcessGetsIt) {
  const Space other = fleet_.open();
  std::optional<Space> space = fleet_.open();
  Hold hold = space->lock(in_b);
  std::optional<Hold> next;
  std::jthread waiter{[&] { next = other.lock(in_b); }};
  await_waiters(other, 1);
  const Locker locker = space->as("x");
  space.reset();
  EXPECT_THROW((void)locker.lock(in_a), Closed);
  EXPECT_TRUE(hold.release());
  waiter.join();
  EXPECT_TRUE(next->release());
  EXPECT_EQ(fleet_.sessions("b"), 1U);  // The first one's is gone.
}

TEST_F(Sharded, AnAnchoredTicketIsFoundInItsShard) {
  const Space space = fleet_.open();
  Txn put;
  put.writes.push_back(Write::put("anchor", ""));
  fleet_.store("b").apply(put);
  const Token token = space.anchored("anchor").lock(in_b).detach();
  EXPECT_FALSE(space.find(token, Path::of(in_a)).has_value());
  std::optional<Hold> found = space.find(token);
  ASSERT_TRUE(found.has_value());
  EXPECT_TRUE(found->release());
  EXPECT_FALSE(space.find(token).has_value());
}

// Numbers of two shards may be equal.
TEST_F(Sharded, ATokenThatTwoShardsHaveIsRefused) {
  const Space space = fleet_.open();
  EXPECT_TRUE(space.lock(in_a).release() && space.lock(in_b).release());
  const auto newest = [&](const std::string& name) {
    return fleet_.store(name).apply({}).revision;
  };
  Txn put;
  put.writes.push_back(Write::put("x", ""));
  while (newest("a") != newest("b")) {
    fleet_.store(newest("a") < newest("b") ? "a" : "b").apply(put);
  }
  const std::optional<Hold> a = space.lock(in_a);
  std::optional<Hold> b = space.lock(in_b);
  ASSERT_EQ(a->token(), b->token());
  EXPECT_TRUE(contains(message_of<BadRequest>([&] { space.evict(a->token()); }),
                       "the shards 'a' and 'b' both have a ticket with the number"));
  EXPECT_THROW(space.ask_to_leave(a->token()), BadRequest);
  EXPECT_THROW((void)space.find(a->token()), BadRequest);
  EXPECT_EQ(space.evict_below_now(Path::of(in_b)), 1U);
  EXPECT_FALSE(b->release());
  EXPECT_TRUE(space.evict_now(a->token()));
  EXPECT_FALSE(space.evict(a->token()));
  fleet_.set_down("c", true);
  EXPECT_TRUE(contains(message_of<StoreError>([&] { space.evict(a->token()); }),
                       "it may be in another one"));
}

TEST_F(Sharded, ALostSessionIsReplacedAndTheOtherShardsKeepTheirHolds) {
  const Space space = fleet_.open();
  Hold a = space.lock(in_a);
  const Hold b = space.lock(in_b);
  const std::stop_token lost = space.lost();
  const std::stop_token lost_a = a.lost();
  const std::stop_token lost_b = b.lost();
  EXPECT_FALSE(lost.stop_requested());
  Txn read;
  read.reads.push_back(Range::prefix(std::string{session_prefix}));
  const Entry session = fleet_.store("b").apply(read).reads.front().front();
  fleet_.store("b").lose_session(session.key.substr(session_prefix.size()));
  kit::until([&] { return lost.stop_requested() && lost_b.stop_requested(); });
  EXPECT_FALSE(lost_a.stop_requested());
  EXPECT_TRUE(space.lost().stop_requested());
  std::optional<Hold> again;
  kit::until([&] { return (again = space.try_lock(in_b)).has_value(); });
  EXPECT_TRUE(again->release());
  EXPECT_TRUE(a.release());
}

TEST_F(Sharded, AnObserverSeesAllShardsAndOneThatComesAndGoes) {
  const Space space = fleet_.open();
  Observer observer = space.observe();
  EXPECT_EQ(observer.next().size(), 0U);
  const Hold a = space.lock(in_a);
  EXPECT_EQ(observer.next().size(), 1U);
  const Hold b = space.lock(in_b);
  while (observer.next().size() != 2) {
  }
  fleet_.set_down("b", true);
  const Hold c = space.lock(in_c);
  const auto faults = [&] {
    const std::vector<TicketInfo> seen = observer.next();
    return std::ranges::count_if(seen, [](const TicketInfo& info) { return !info.fault.empty(); });
  };
  while (faults() != 1) {
  }
  fleet_.set_down("b", false);
  while (faults() != 0) {
  }
  EXPECT_EQ(space.inspect().size(), 3U);
}

TEST_F(Sharded, ALockThatIsHandedOverInOneShardWakesItsWaiter) {
  const Space one = fleet_.open();
  const Space two = fleet_.open();
  for (const std::string& root : {in_a, in_b, in_c}) {
    Hold hold = one.lock(root);
    std::optional<Hold> next;
    std::jthread waiter{[&] { next = two.lock(root); }};
    await_waiters(one, 1);
    const Token first = hold.token();
    EXPECT_TRUE(hold.release());
    waiter.join();
    EXPECT_GT(next->token(), first);
  }
}

TEST(ShardedUrl, OpensTheStoresThatAFileLists) {
  const kit::TemporaryDirectory directory;
  const std::string list = (directory / "shards").string();
  std::ofstream{list} << "a sqlite:" << (directory / "a.db").string()
                      << "\nb sqlite:" << (directory / "b.db").string()
                      << "\nspare sqlite:" << (directory / "none.db").string() << "\n";
  const std::string url = "sharded:" + list;
  EXPECT_THROW((void)open(url), Error);
  set_shards(url, {"b", "a"});
  EXPECT_EQ(shards(url).names, (std::vector<std::string>{"a", "b"}));
  EXPECT_FALSE(shards(url).shards.back().in_map);
  EXPECT_FALSE(std::filesystem::exists(directory / "none.db"));
  const std::string root = root_in("b", {"a", "b"});
  EXPECT_EQ(shard_of(url, Path::of(root, 3)), "b");
  const Space space = open(url);
  const Space alone = open("sqlite:" + (directory / "b.db").string());
  const Hold hold = space.lock(root);
  EXPECT_FALSE(alone.try_lock(root).has_value());
  EXPECT_GE(space.descriptor(), 0);
  EXPECT_TRUE(space.try_lock(root_in("a", {"a", "b"})).has_value());
  EXPECT_EQ(space.descriptor(), -1);
  EXPECT_THROW((void)store(url), Error);
}

}  // namespace
}  // namespace tenure::sharded
