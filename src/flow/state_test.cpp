#include "tenure/state.hpp"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "tenure/memory_store.hpp"
#include "tests/kit/message.hpp"

namespace tenure {
namespace {

struct Profile {
  std::string name;
  int visits = 0;
  friend bool operator==(const Profile&, const Profile&) = default;
};
void to_json(nlohmann::json& json, const Profile& profile) {
  json = {{"name", profile.name}, {"visits", profile.visits}};
}
void from_json(const nlohmann::json& json, Profile& profile) {
  json.at("name").get_to(profile.name);
  json.at("visits").get_to(profile.visits);
}

class State : public ::testing::Test {
 protected:
  [[nodiscard]] std::string stored(const SlotAddress& address) const {
    Txn txn;
    txn.reads.push_back(Range::key(address.key()));
    const Outcome outcome = store_->apply(txn);
    return outcome.reads.front().empty() ? "(nothing)" : outcome.reads.front().front().value;
  }
  // Another process writes to the slot just before each of the next `count` writes to it.
  void interfere(const SlotAddress& address, int count) {
    interferences_ = count;
    store_->before_apply([this, key = address.key()](const Txn& txn) {
      if (txn.writes.empty() || interferences_ == 0 || interfering_) return;
      --interferences_;
      interfering_ = true;
      Txn other;
      other.writes.push_back(Write::put(key, std::to_string(1000 + interferences_)));
      store_->apply(other);
      interfering_ = false;
    });
  }
  [[nodiscard]] StateOptions patient(std::uint32_t attempts) {
    return {.max_attempts = attempts,
            .sleep = [this](std::chrono::nanoseconds time) { slept_.push_back(time); },
            .random = [] { return 1.0; }};
  }

  std::shared_ptr<MemoryStore> store_ = std::make_shared<MemoryStore>();
  SlotAddress address_ = slot::workflow("transfer", "account-42:lock");
  std::vector<std::chrono::nanoseconds> slept_;
  int interferences_ = 0;
  bool interfering_ = false;
};

TEST_F(State, HasAddressesThatCanBeWrittenDown) {
  EXPECT_EQ(address_.text(), "workflow/transfer/account-42:lock");
  EXPECT_EQ(slot::parse(address_.text()), address_);
  EXPECT_EQ(slot::execution("run/7", "a b").text(), "execution/run%2F7/a%20b");
  EXPECT_EQ(slot::parse("execution/run%2F7/a%20b"), slot::execution("run/7", "a b"));
  EXPECT_NE(slot::workflow("a", "b/c").key(), slot::workflow("a/b", "c").key());
  EXPECT_NE(slot::workflow("a", "b").key(), slot::execution("a", "b").key());
}

TEST_F(State, RefusesAnAddressThatIsNone) {
  EXPECT_EQ(kit::message_of<BadRequest>([] { static_cast<void>(slot::parse("transfer/lock")); }),
            "'transfer/lock' is not the address of a slot: write workflow/TYPE/KEY or "
            "execution/ID/KEY");
  EXPECT_THROW(static_cast<void>(slot::parse("workflow//x")), BadRequest);
  EXPECT_THROW(static_cast<void>(slot::workflow("t", std::string(5000, 'x'))), BadRequest);
}

TEST_F(State, SetsGetsAndRemoves) {
  const AtomicState<Profile> state{store_, address_};
  EXPECT_EQ(state.get(), std::nullopt);
  EXPECT_FALSE(state.remove());
  state.set({.name = "ann", .visits = 2});
  EXPECT_EQ(stored(address_), R"({"name":"ann","visits":2})");
  EXPECT_EQ(state.get(), (Profile{.name = "ann", .visits = 2}));
  EXPECT_TRUE(state.remove());
  EXPECT_EQ(stored(address_), "(nothing)");
}

TEST_F(State, ReadsAnInitialValueUntilOneIsWritten) {
  const AtomicState<int> state{store_, address_, 7};
  EXPECT_EQ(state.get(), 7);
  EXPECT_EQ(stored(address_), "(nothing)");
  EXPECT_FALSE(state.remove());
  EXPECT_TRUE(state.compare_and_swap(7, 8));
  EXPECT_EQ(state.get(), 8);
}

TEST_F(State, UpdatesWhatItFinds) {
  const AtomicState<int> state{store_, address_};
  EXPECT_EQ(state.update([](std::optional<int> old) { return old.value_or(40) + 2; }), 42);
  EXPECT_EQ(state.update([](std::optional<int> old) { return old.value_or(40) + 2; }), 44);
}

TEST_F(State, AnUpdateThatThrowsChangesNothing) {
  const AtomicState<int> state{store_, address_};
  state.set(1);
  EXPECT_THROW(state.update([](std::optional<int>) -> int { throw std::domain_error("no"); }),
               std::domain_error);
  EXPECT_EQ(state.get(), 1);
}

TEST_F(State, ComparesAndSwaps) {
  const AtomicState<int> state{store_, address_};
  EXPECT_FALSE(state.compare_and_swap(1, 2));
  EXPECT_TRUE(state.compare_and_swap(std::nullopt, 1));
  EXPECT_FALSE(state.compare_and_swap(std::nullopt, 5));
  EXPECT_TRUE(state.compare_and_swap(1, 2));
  EXPECT_EQ(state.get(), 2);
}

TEST_F(State, Increments) {
  const AtomicState<std::int64_t> state{store_, address_};
  EXPECT_EQ(state.increment(), 1);
  EXPECT_EQ(state.increment(-3), -2);
  state.set(std::numeric_limits<std::int64_t>::max());
  EXPECT_THROW(state.increment(), BadRequest);
  EXPECT_EQ(state.get(), std::numeric_limits<std::int64_t>::max());
  const AtomicState<double> sum{store_, slot::execution("run", "sum")};
  sum.increment(0.5);
  EXPECT_EQ(sum.increment(0.25), 0.75);
}

TEST_F(State, Appends) {
  const AtomicState<std::vector<std::string>> state{store_, address_};
  EXPECT_EQ(state.append("a"), 1U);
  EXPECT_EQ(state.append("b"), 2U);
  EXPECT_EQ(stored(address_), R"(["a","b"])");
}

TEST_F(State, Merges) {
  const AtomicState<Profile> state{store_, address_};
  state.set({.name = "ann", .visits = 2});
  EXPECT_EQ(state.merge({{"visits", 3}}), (Profile{.name = "ann", .visits = 3}));
  EXPECT_THROW(state.merge({{"visits", nullptr}}), StateFormat);
  EXPECT_EQ(state.get(), (Profile{.name = "ann", .visits = 3}));
  const AtomicState<std::map<std::string, int>> map{store_, slot::execution("run", "map")};
  map.merge({{"a", 1}, {"b", 2}});
  EXPECT_EQ(map.merge({{"a", nullptr}, {"c", 3}}),
            (std::map<std::string, int>{{"b", 2}, {"c", 3}}));
}

TEST_F(State, RetriesWhatLostARace) {
  const AtomicState<int> state{store_, address_, {}, patient(10)};
  interfere(address_, 3);
  EXPECT_EQ(state.increment(), 1001);  // On what the last of the others wrote.
  using std::chrono::milliseconds;
  EXPECT_EQ(slept_, (std::vector<std::chrono::nanoseconds>{milliseconds{1}, milliseconds{2},
                                                           milliseconds{4}}));
}

TEST_F(State, GivesUpAfterTooManyLostRaces) {
  const AtomicState<int> state{store_, address_, {}, patient(4)};
  interfere(address_, 1000);
  EXPECT_EQ(kit::message_of<StateConflict>([&] { state.increment(); }),
            "slot 'workflow/transfer/account-42:lock': gave up after 4 conflicting writes; the "
            "slot is as others left it: try again later");
  EXPECT_EQ(slept_.size(), 3U);  // None after the last.
}

TEST_F(State, DelaysAreBounded) {
  const AtomicState<int> state{store_, address_, {}, patient(100)};
  interfere(address_, 99);
  state.increment();
  EXPECT_EQ(slept_.size(), 99U);
  EXPECT_EQ(slept_.back(), std::chrono::milliseconds{250});
}

TEST_F(State, SaysWhenASlotHasAnotherType) {
  AtomicState<std::string>{store_, address_}.set("text");
  const AtomicState<Profile> state{store_, address_};
  EXPECT_THROW(static_cast<void>(state.get()), StateFormat);
  EXPECT_THROW(state.merge({{"visits", 1}}), StateFormat);
  EXPECT_EQ(stored(address_), R"("text")");
}

TEST_F(State, RefusesAValueThatCannotBeEncoded) {
  const AtomicState<std::string> state{store_, address_, {}, {}};
  EXPECT_THROW(state.set("\xff"), StateFormat);
  EXPECT_EQ(stored(address_), "(nothing)");
}

TEST_F(State, PassesOnWhatTheStoreSays) {
  const AtomicState<int> state{store_, address_};
  store_->before_apply([](const Txn& txn) {
    if (!txn.writes.empty()) throw StoreError("disk full");
  });
  EXPECT_THROW(state.increment(), StoreError);
}

TEST_F(State, RefusesToTryNever) {
  EXPECT_THROW((AtomicState<int>{store_, address_, {}, {.max_attempts = 0}}), BadRequest);
}

}  // namespace
}  // namespace tenure
