// conformance.hpp: for tests: what every store must do (tenure/store.hpp). A store's test program
// links store_conformance and says how such a store is made:
//
//   INSTANTIATE_TEST_SUITE_P(Memory, StoreConformance, ::testing::Values(StoreKind{"memory", [] {
//     auto store = std::make_shared<MemoryStore>();
//     return StoreUnderTest{.open = [store] { return store; }};
//   }}), kind_name);
//
// Nothing here sleeps or measures time. A notice that does not come fails the test after
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

// One store, somewhere; empty at first. It goes with its last copy.
struct StoreUnderTest {
  // A handle onto it: a new one each time, where a store can have several.
  std::function<std::shared_ptr<Store>()> open;
  // The session dies as it does with its process; null where only a real death can be had.
  std::function<void(Session&)> kill = nullptr;
};

struct StoreKind {
  std::string name;
  std::function<StoreUnderTest()> make;
};
void PrintTo(const StoreKind& kind, std::ostream* out);  // NOLINT: the name that gtest looks for.
[[nodiscard]] std::string kind_name(const ::testing::TestParamInfo<StoreKind>& info);

class StoreConformance : public ::testing::TestWithParam<StoreKind> {
 protected:
  // The store of this test; opened by the first call, so a test can fork before.
  Store& store();
  [[nodiscard]] std::shared_ptr<Store> another() const { return place_.open(); }
  [[nodiscard]] const StoreUnderTest& place() const { return place_; }

  // A put of one key; the revision it made.
  Revision put(std::string key, std::string value = "");
  Revision remove(std::string key);
  [[nodiscard]] std::vector<Entry> read(const Range& range);
  [[nodiscard]] Revision newest();
  [[nodiscard]] bool holds(Guard guard);  // An apply with this guard alone commits.

 private:
  StoreUnderTest place_ = GetParam().make();
  std::shared_ptr<Store> store_;
};

// For a store of several processes: conformance/process_test.cpp, which its test program lists.
// open() in a forked process is a handle onto the same store.
class StoreProcesses : public ::testing::TestWithParam<StoreKind> {
 protected:
  [[nodiscard]] const StoreUnderTest& place() const { return place_; }

 private:
  StoreUnderTest place_ = GetParam().make();
};

// Increments one of two counters, so that some applies conflict and some do not, and appends an
// entry for each increment. What counted() then says is counted_by(), the number of appliers.
void count(Store& store, std::size_t index);
[[nodiscard]] std::string counted(Store& store);
[[nodiscard]] std::string counted_by(std::size_t count);

[[nodiscard]] Txn txn(std::vector<Guard> guards, std::vector<Write> writes,
                      std::vector<Range> reads = {});
// All keys that are not Tenure's own.
[[nodiscard]] Range everything();
[[nodiscard]] Range between(std::string from, std::string to);
// "a b c", with bytes that can't be printed as \xNN.
[[nodiscard]] std::string keys(const std::vector<Entry>& entries);

// Counts notices, from any thread.
class Bell {
 public:
  void ring();
  // Until it has rung so often.
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
