// conformance.hpp: for tests: what every store must do (tenure/store.hpp). The test program of a
// store links store_conformance and says how to make such a store:
//
//   INSTANTIATE_TEST_SUITE_P(Memory, StoreConformance, ::testing::Values(StoreKind{"memory", [] {
//     auto store = std::make_shared<MemoryStore>();
//     return StoreUnderTest{.open = [store] { return store; }};
//   }}), kind_name);
//
// Nothing here sleeps or measures time. If a notice does not come, the test fails after
// kit::patience().
#pragma once

#include <gtest/gtest.h>

#include <condition_variable>
#include <cstddef>
#include <functional>
#include <iosfwd>
#include <memory>
#include <mutex>
#include <source_location>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tenure/store.hpp"

namespace tenure::conformance {

// One store, empty at first. It is deleted with the last copy of this object.
struct StoreUnderTest {
  // Opens a handle to the store: a new one at each call, if the store can have several.
  std::function<std::shared_ptr<Store>()> open;
  // Kills the session as the death of its process would; null if only a real death can do that.
  std::function<void(Session&)> kill = nullptr;
};

struct StoreKind {
  std::string name;
  std::function<StoreUnderTest()> make;
  // False: revisions of different roots say nothing about each other, not even to an apply that
  // touches both. Random transactions with tickets then compare no numbers.
  bool compares_roots = true;
};
void PrintTo(const StoreKind& kind, std::ostream* out);  // NOLINT: the name that gtest looks for.
[[nodiscard]] std::string kind_name(const ::testing::TestParamInfo<StoreKind>& info);

class StoreConformance : public ::testing::TestWithParam<StoreKind> {
 protected:
  // The store of this test. The first call opens it, so that a test can fork before.
  Store& store();
  [[nodiscard]] std::shared_ptr<Store> another() const { return place_.open(); }
  [[nodiscard]] const StoreUnderTest& place() const { return place_; }

  // Puts one key; returns the revision.
  Revision put(std::string key, std::string value = "");
  Revision remove(std::string key);
  [[nodiscard]] std::vector<Entry> read(const Range& range);
  [[nodiscard]] Revision newest();
  [[nodiscard]] bool holds(Guard guard);  // Whether an apply with this guard alone commits.

 private:
  StoreUnderTest place_ = GetParam().make();
  std::shared_ptr<Store> store_;
};

// For stores that several processes share: conformance/process_test.cpp, which the test program
// lists. In a forked process, open() returns a handle to the same store.
class StoreProcesses : public ::testing::TestWithParam<StoreKind> {
 protected:
  [[nodiscard]] const StoreUnderTest& place() const { return place_; }

 private:
  StoreUnderTest place_ = GetParam().make();
};

// How many notices the processes of a queue for one lock receive from their store while the lock is
// handed over so many times. In the same file; its processes open the store, and this one does not.
[[nodiscard]] std::size_t count_notices(std::size_t processes, std::size_t releases,
                                        const std::function<std::shared_ptr<Store>()>& open);

// Increments one of two counters, so that some applies conflict and some do not, and appends an
// entry for each increment. Afterwards counted() equals counted_by(number of callers).
void count(Store& store, std::size_t index);
[[nodiscard]] std::string counted(Store& store);
[[nodiscard]] std::string counted_by(std::size_t count);

[[nodiscard]] Txn txn(std::vector<Guard> guards, std::vector<Write> writes,
                      std::vector<Range> reads = {});
// All keys that are not reserved for Tenure.
[[nodiscard]] Range everything();
[[nodiscard]] Range between(std::string from, std::string to);
// "a b c"; unprintable bytes as \xNN.
[[nodiscard]] std::string keys(const std::vector<Entry>& entries);

// Counts notices, from any thread.
class Bell {
 public:
  void ring();
  // Waits until it has rung `count` times.
  void wait(std::size_t count = 1, std::source_location where = std::source_location::current());
  [[nodiscard]] Store::Notice notice() {
    return [this] { ring(); };
  }

 private:
  std::mutex mutex_;
  std::condition_variable rung_;
  std::size_t count_ = 0;
};

}  // namespace tenure::conformance
