// Limits that are changed in a store: what requests pay for it, races with appends, the rows.
#include <gtest/gtest.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "space/any_space_test.hpp"
#include "space/stored/forwarding_store_test.hpp"
#include "space/stored/keys.hpp"
#include "space/stored/row.hpp"
#include "space/stored/rows.hpp"
#include "tenure/memory_store.hpp"
#include "tenure/tenure.hpp"

namespace tenure::stored {
namespace {

const Path ram = Path::of("ram");

// Counts what is applied, and calls a function before the next apply that appends something.
class WatchedStore : public ForwardingStore {
 public:
  using ForwardingStore::ForwardingStore;
  Outcome apply(const Txn& txn) override {
    ++applies;
    reads += txn.reads.size();
    guards += txn.guards.size();
    const bool appends = !txn.writes.empty() && txn.writes.front().kind == Write::Kind::append;
    if (appends && before_append) std::exchange(before_append, nullptr)();
    return ForwardingStore::apply(txn);
  }
  std::size_t applies = 0;
  std::size_t reads = 0;
  std::size_t guards = 0;
  std::function<void()> before_append;
};

struct StoredLimits : testing::Test {
  std::shared_ptr<MemoryStore> memory =
      std::make_shared<MemoryStore>(MemoryStore::Clock::virtual_time);
  std::shared_ptr<WatchedStore> store = std::make_shared<WatchedStore>(memory);
  Space space = open(store);
  Space other = open(memory);

  [[nodiscard]] std::vector<Entry> entries() const {
    Txn txn;
    txn.reads.push_back(rows_range());
    return memory->apply(txn).reads.front();
  }
};

// Goal: that limits can be changed costs a request nothing: one read to agree on the limit and one
// append, each with as many ranges and guards as before there was set_limit().
TEST_F(StoredLimits, ARequestCostsWhatItDid) {
  std::optional<Hold> member = other.lock(ram.permits(3));
  static_cast<void>(space.lock(ram.permits(3)));  // The first one learns which regions are used.
  const auto cost = [&](const Claim& claim) {
    const std::size_t applies = store->applies;
    const std::size_t reads = store->reads;
    const std::size_t guards = store->guards;
    const Hold hold = space.lock(claim);
    return std::vector{store->applies - applies, store->reads - reads, store->guards - guards};
  };
  EXPECT_EQ(cost(ram.permits(3)), (std::vector<std::size_t>{2, 11, 2}));
  EXPECT_EQ(other.set_limit(ram.permits(4)), 1U);
  EXPECT_EQ(cost(ram.permits(4)), (std::vector<std::size_t>{2, 11, 2}));
  member.reset();
  EXPECT_EQ(cost(ram.permits(4)), (std::vector<std::size_t>{2, 11, 3}));
}

TEST_F(StoredLimits, ARequestThatAgreedBeforeTheChangeIsRefused) {
  const Hold member = other.lock(ram.permits(3));
  store->before_append = [&] { EXPECT_EQ(other.set_limit(ram.permits(1)), 1U); };
  EXPECT_THROW(static_cast<void>(space.lock(ram.permits(3))), LimitMismatch);
  EXPECT_EQ(told(other), "1 holds ram:permits(1)");
}

// The entry in the line of the group is not the one with the limit in it.
TEST_F(StoredLimits, SoIsOneThatAgreedWithASecondClaim) {
  const Hold member = other.lock({Path::of("disk"), ram.permits(3)});
  store->before_append = [&] { EXPECT_EQ(other.set_limit(ram.permits(1)), 1U); };
  EXPECT_THROW(static_cast<void>(space.try_lock(ram.permits(3))), LimitMismatch);
  EXPECT_EQ(told(other), "1 holds disk ram:permits(1)");
}

TEST_F(StoredLimits, AKeptClaimIsInTheRow) {
  const Hold first = space.lock(ram.permits(3));
  const Hold kept = space.lock({Path::of("disk"), ram.permits(3)});
  EXPECT_EQ(other.set_limit(ram.permits(1)), 2U);
  std::size_t found = 0;
  for (const Entry& entry : entries()) {
    const Parsed parsed = parse_row(entry);
    if (!parsed.row.has_value() || parsed.row->kept == 0) continue;
    ++found;
    EXPECT_EQ(parsed.row->kept, 2U);
    EXPECT_EQ(entry.value.find(R"({"format":4,)"), 0U) << entry.value;
    EXPECT_TRUE(entry.value.contains(R"("kept":[1])")) << entry.value;
    EXPECT_EQ(number_in(entry.key), kept.token());
  }
  EXPECT_EQ(found, 1U);
  EXPECT_EQ(other.set_limit(ram.permits(2)), 2U);
  for (const Entry& entry : entries()) {
    EXPECT_FALSE(entry.value.contains("format")) << "nothing is kept any more: " << entry.value;
  }
}

TEST_F(StoredLimits, ARowWithAWrongKeptClaimIsRefused) {
  const auto text = [](const std::string& kept) {
    return R"({"format":4,"session":"x","request":1,"claims":[["ram","permits",1]],"since":1,)" +
           kept + "}";
  };
  const auto read = [&](const std::string& kept) {
    return read_row({.key = row_key(ram.permits(1), Token{1}),
                     .value = text(kept),
                     .created = {},
                     .changed = {}});
  };
  EXPECT_TRUE(read(R"("kept":[0])").has_value());
  EXPECT_EQ(read(R"("kept":[1])").error().why, "a kept claim is not there");
  EXPECT_FALSE(read(R"("kept":[-1])").has_value());
  EXPECT_FALSE(read(R"("kept":["0"])").has_value());
}

// Another process finds that it holds, although the limit is lower now.
TEST_F(StoredLimits, AnAnchoredHoldIsFoundThoughTheLimitWasLowered) {
  Txn txn;
  txn.writes.push_back(Write::put("job", "1"));
  memory->apply(txn);
  const Hold first = space.lock(ram.permits(2));
  Hold second = space.anchored("job").lock(ram.permits(2));
  const Token token = second.detach();
  EXPECT_EQ(other.set_limit(ram.permits(1)), 2U);
  std::optional<Hold> again = other.find(token);
  ASSERT_TRUE(again);
  EXPECT_EQ(again->claims(), std::vector{ram.permits(1)});
  EXPECT_TRUE(again->release());
  EXPECT_FALSE(other.try_lock(ram.permits(1)));
}

// The repeated request names the limit that it asked with first.
TEST_F(StoredLimits, ARepeatedRequestIsKnownAfterAChange) {
  Txn txn;
  txn.writes.push_back(Write::put("job", "1"));
  memory->apply(txn);
  Hold hold = space.anchored("job").request_id(7).lock(ram.permits(2));
  const Token token = hold.detach();
  EXPECT_EQ(other.set_limit(ram.permits(3)), 1U);
  Hold again = other.anchored("job").request_id(7).lock(ram.permits(2));
  EXPECT_EQ(again.token(), token);
  EXPECT_TRUE(again.release());
}

TEST_F(StoredLimits, AnEntryThatCannotBeReadStopsTheChange) {
  const Hold hold = space.lock(ram.permits(2));
  Txn txn;
  txn.writes.push_back(Write::append(line_of(ram.permits(2)), R"({"format":9})"));
  memory->apply(txn);
  EXPECT_THROW(other.set_limit(ram.permits(3)), StoreError);
}

}  // namespace
}  // namespace tenure::stored
