#include "space/local/local_space.hpp"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <cstdint>
#include <deque>
#include <random>
#include <span>
#include <vector>

#include "space/rule_replay.hpp"
#include "tenure/error.hpp"
#include "tests/kit/sanitized.hpp"

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
  std::size_t limits = 0;
  std::size_t agains = 0;
  std::size_t upgrades = 0;
  for (unsigned seed = 0; seed < kit::slice(500); ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random{seed};
    std::vector<std::uint8_t> script(2000);
    for (auto& byte : script) byte = static_cast<std::uint8_t>(random());
    RuleReplay replay{new LocalSpace};
    ASSERT_NO_THROW(replay.play(script));
    grants += replay.grants();
    waits += replay.waits();
    crowds += replay.crowds();
    limits += replay.limits();
    agains += replay.agains();
    upgrades += replay.upgrades();
  }
  // The scripts are worth something only if much is granted, much has to wait, shards are filled,
  // limits are changed and holds are asked for again.
  EXPECT_GT(grants, kit::slice(13'000));
  EXPECT_GT(waits, kit::slice(10'000));
  EXPECT_GT(crowds, kit::slice(3'000));
  EXPECT_GT(limits, kit::slice(1'000));
  EXPECT_GT(agains, kit::slice(1'000));
  EXPECT_GT(upgrades, kit::slice(100));
}

// ---- Bundles: several claims that are thin at first ----

// Counts its grant; any number of them may wait at once, on one thread.
struct Counter : detail::Waiter {
  explicit Counter(int& grants)
      : Waiter([](Waiter& self, detail::WaitOutcome outcome) noexcept {
          EXPECT_EQ(outcome, detail::WaitOutcome::granted);
          ++static_cast<Counter&>(self).count;
        }),
        count(grants) {}
  int& count;
};

std::vector<Claim> some_claims(unsigned count) {
  std::vector<Claim> claims;
  for (unsigned i = 0; i < count; ++i) {
    const Path path = i % 3 == 0 ? Path::of("bundle", i, "leaf") : Path::of(i);
    claims.push_back(i % 2 == 0 ? path.exclusive() : path.shared());
  }
  return claims;
}

class Bundle : public ::testing::TestWithParam<unsigned> {
 public:
  ~Bundle() override { space_->abandon(); }

 protected:
  detail::Grant try_for(std::span<const Claim> claims) {
    detail::Grant grant;
    return space_->try_request({.claims = claims, .owner = nobody_}, grant) ? grant
                                                                            : detail::Grant{};
  }
  bool wait_for(const Claim& claim, Counter& counter) {
    return !space_->request({.claims = {&claim, 1}, .owner = nobody_}, counter);
  }
  void expect_all_free() {
    for (const Claim& claim : claims_) {
      const detail::Grant grant = try_for({&claim, 1});
      ASSERT_NE(grant.ticket, nullptr) << claim.text();
      EXPECT_TRUE(space_->release(grant));
    }
    EXPECT_TRUE(space_->inspect({}).empty());
  }

  const detail::OwnerRef nobody_;
  detail::Backend* const space_ = new LocalSpace;
  const std::vector<Claim> claims_ = some_claims(GetParam());
};
INSTANTIATE_TEST_SUITE_P(Of, Bundle, ::testing::Values(2U, 5U, 64U));

TEST_P(Bundle, IsReleasedAsAWholeWhicheverOfItsClaimsAreAwaited) {
  for (unsigned awaited = 0; awaited < 4; ++awaited) {
    const detail::Grant grant = try_for(claims_);
    ASSERT_NE(grant.ticket, nullptr);
    int grants = 0;
    std::deque<Counter> waiters;
    for (unsigned i = 0; i < 2; ++i) {
      if ((awaited >> i & 1U) == 0) continue;
      EXPECT_TRUE(wait_for(claims_[i].path.exclusive(), waiters.emplace_back(grants)));
    }
    EXPECT_TRUE(space_->release(grant));
    EXPECT_EQ(grants, static_cast<int>(waiters.size()));
    for (const Counter& waiter : waiters) {
      EXPECT_GT(waiter.grant.token, grant.token);
      EXPECT_TRUE(space_->release(waiter.grant));
    }
    expect_all_free();
  }
}

TEST_P(Bundle, IsSeenAsOneTicketAndMayBeEvicted) {
  detail::Grant grant = try_for(claims_);
  ASSERT_NE(grant.ticket, nullptr);
  const std::vector<TicketInfo> infos = space_->inspect({});
  ASSERT_EQ(infos.size(), 1U);
  EXPECT_EQ(infos[0].ticket.claims, claims_);
  EXPECT_TRUE(space_->renew(grant, {}));
  EXPECT_TRUE(space_->evict(grant.token, true));
  expect_all_free();
  EXPECT_FALSE(space_->release(grant));
}

TEST_P(Bundle, KeepsSomeOfItsClaimsAfterADowngrade) {
  detail::Grant grant = try_for(claims_);
  ASSERT_NE(grant.ticket, nullptr);
  const Token number = grant.token;
  space_->downgrade(grant, {&claims_.back(), 1});
  EXPECT_EQ(grant.token, number);
  const detail::Grant other = try_for({claims_.data(), 1});
  ASSERT_NE(other.ticket, nullptr);
  EXPECT_TRUE(space_->release(other));
  const Claim kept = claims_.back().path.exclusive();
  EXPECT_EQ(try_for({&kept, 1}).ticket, nullptr);
  EXPECT_TRUE(space_->release(grant));
  expect_all_free();
}

// What is claimed already, or twice, leaves nothing of the other claims behind.
TEST_P(Bundle, IsTakenAsAWholeOrNotAtAll) {
  const detail::Grant last = try_for({&claims_.back(), 1});
  std::vector<Claim> wanted = claims_;
  wanted.back() = wanted.back().path.exclusive();
  EXPECT_EQ(try_for(wanted).ticket, nullptr);
  EXPECT_TRUE(space_->release(last));
  wanted.back() = wanted.front();
  EXPECT_THROW(try_for(wanted), BadRequest);
  wanted.back() = Path::of("bundle");  // Above the first one: no conflict within a ticket.
  const detail::Grant nested = try_for(wanted);
  ASSERT_NE(nested.ticket, nullptr);
  EXPECT_TRUE(space_->release(nested));
  expect_all_free();
}

TEST_P(Bundle, KeepsItsSpaceUntilItIsReleased) {
  detail::Backend* const space = new LocalSpace;
  detail::Grant grant;
  ASSERT_TRUE(space->try_request({.claims = claims_, .owner = nobody_}, grant));
  const detail::Grant thin = space->request_free(Path::of("thin"), nobody_);
  ASSERT_NE(thin.ticket, nullptr);
  space->abandon();
  EXPECT_TRUE(space->release(thin));
  EXPECT_TRUE(space->release(grant));  // The sanitizers see what is left, or was gone too early.
}

}  // namespace
}  // namespace tenure::local
