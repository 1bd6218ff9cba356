#include "store/common/lease_renewer.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <latch>
#include <memory>
#include <stop_token>
#include <thread>
#include <utility>

#include "base/boot_clock.hpp"
#include "tests/kit/patience.hpp"

namespace tenure::stores {
namespace {

using namespace std::chrono_literals;
using base::boot_ns;

TEST(Lease, IsTrustedForTwoThirdsOfItsTimeSinceItsRenewalWasSent) {
  Lease lease;
  lease.ttl = 9s;
  const std::int64_t sent = boot_ns();
  lease.renewed(sent);
  EXPECT_EQ(std::chrono::nanoseconds{lease.trusted_until.load() - sent}, 6s);
  EXPECT_TRUE(lease.check());
  EXPECT_FALSE(lease.lost.stop_requested());
}

TEST(Lease, IsLostForGoodWhenItsTimeIsOver) {
  Lease lease;
  lease.ttl = 9s;
  lease.renewed(boot_ns() - std::chrono::nanoseconds{6s}.count());
  EXPECT_FALSE(lease.check());
  EXPECT_TRUE(lease.lost.stop_requested());
  lease.renewed(boot_ns());  // A late answer.
  EXPECT_FALSE(lease.check());
}

// ---- callbacks of lost() ----

constexpr LeaseRenewer::Timing at_once{.earliest = 0, .latest = 0, .retry = 1ms};

// The server says at the first renewal that the lease is gone.
std::shared_ptr<LeaseRenewer> refusing_renewer() {
  auto renewer = std::make_shared<LeaseRenewer>(at_once, [](const Lease&) { return 0ms; });
  renewer->start();
  return renewer;
}

TEST(LeaseRenewer, ALeaseThatTheServerHasEndedIsLost) {
  const auto renewer = refusing_renewer();
  const auto lease = renewer->add("session", 1h, boot_ns());
  kit::until([&] { return lease->lost.stop_requested(); });
  EXPECT_FALSE(lease->check());
  renewer->stop();
}

TEST(LeaseRenewer, StopWaitsForCallbacksOfLost) {
  // Not before the callback is registered: otherwise it would run in its constructor.
  std::latch registered{1};
  const auto renewer = std::make_shared<LeaseRenewer>(at_once, [&registered](const Lease&) {
    registered.wait();
    return 0ms;
  });
  renewer->start();
  std::latch go{1};
  std::atomic<bool> called = false;
  std::atomic<bool> done = false;
  const auto lease = renewer->add("session", 1h, boot_ns());
  const std::stop_callback callback{lease->lost.get_token(), [&] {
                                      called.store(true);
                                      go.wait();
                                      // Long enough for a stop() that does not wait.
                                      const std::int64_t end = boot_ns() + 50'000'000;
                                      while (boot_ns() < end) std::this_thread::yield();
                                      done.store(true);
                                    }};
  registered.count_down();
  kit::until([&] { return called.load(); });
  go.count_down();
  renewer->stop();
  EXPECT_TRUE(done.load());
}

TEST(LeaseRenewer, ACallbackOfLostMayStopIt) {
  std::latch ready{1};
  auto renewer = std::make_shared<LeaseRenewer>(at_once, [&ready](const Lease&) {
    ready.wait();
    return 0ms;
  });
  renewer->start();
  std::latch stopped{1};
  const auto lease = renewer->add("session", 1h, boot_ns());
  const std::stop_callback callback{lease->lost.get_token(), [&] {
                                      std::exchange(renewer, nullptr)->stop();
                                      stopped.count_down();
                                    }};
  ready.count_down();
  stopped.wait();
  EXPECT_EQ(renewer, nullptr);
}

}  // namespace
}  // namespace tenure::stores
