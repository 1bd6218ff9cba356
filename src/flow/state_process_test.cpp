// Eight processes on one slot.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "tenure/state.hpp"
#include "tests/kit/postgres.hpp"
#include "tests/kit/process.hpp"
#include "tests/kit/scratch.hpp"

namespace tenure {
namespace {

constexpr std::size_t processes = 8;
constexpr int rounds = 60;

class SharedState : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (GetParam() == "postgres") schema_ = std::make_unique<kit::Schema>();
  }
  [[nodiscard]] std::string url() const {
    if (schema_ != nullptr) return schema_->url();
    return "sqlite:" + (directory_ / "app.db").string();
  }

 private:
  kit::TemporaryDirectory directory_;
  std::unique_ptr<kit::Schema> schema_;
};

// Row S06 of docs/museum.md.
TEST_P(SharedState, S06_EveryIncrementIsThere) {
  const SlotAddress address = slot::workflow("count", "visits");
  kit::Children children;
  children.start(processes, [this, &address](std::size_t /*index*/) {
    const AtomicState<int> state{store(url()), address};
    for (int i = 0; i < rounds; ++i) state.increment();
    return 0;
  });
  EXPECT_EQ(children.exit_statuses(), std::vector<int>(processes, 0));
  EXPECT_EQ((AtomicState<int>{store(url()), address}.get()), processes * rounds);
}

// Each process acquires, changes a counter without any guard of its own, and releases.
TEST_P(SharedState, AMutexExcludes) {
  const SlotAddress lock = slot::workflow("count", "lock");
  const SlotAddress counter = slot::workflow("count", "total");
  kit::Children children;
  children.start(processes, [&, this](std::size_t index) {
    const auto mine = store(url());
    const AtomicState<LockRecord> slot{mine, lock};
    const AtomicState<int> total{mine, counter, 0};
    const DurableMutex mutex{{.lease = std::chrono::hours{1}}};
    const std::string id = std::to_string(index);
    for (int i = 0; i < 5; ++i) {
      while (!mutex.try_acquire(slot, {.holder = id, .now = mine->now()}).acquired) {
      }
      total.set(*total.get() + 1);
      if (!mutex.release(slot, {.holder = id, .now = mine->now()})) return 1;
    }
    return 0;
  });
  EXPECT_EQ(children.exit_statuses(), std::vector<int>(processes, 0));
  EXPECT_EQ((AtomicState<int>{store(url()), counter}.get()), processes * 5);
}

INSTANTIATE_TEST_SUITE_P(In, SharedState, ::testing::Values("sqlite", "postgres"),
                         [](const auto& kind) { return kind.param; });

}  // namespace
}  // namespace tenure
