// What a connection remembers is never wrong: random applies of two handles of one file, some of
// which fail, compared with a store that remembers nothing.
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "store/sqlite/sqlite_test.hpp"
#include "tenure/memory_store.hpp"

namespace tenure::sqlite {
namespace {

class SqliteKnown : public ::testing::Test {
 protected:
  // One request in the form for each store: an appended key contains the store's own stamp.
  struct Step {
    Txn here;
    Txn model;
  };
  struct Appended {
    std::string here;
    std::string model;
  };

  std::size_t below(std::size_t end) { return random() % end; }
  std::string prefix() { return std::string{"ab"[below(2)]} + "/" + "xy"[below(2)]; }
  // Keys that no append made: some in the ranges of appended ones, some too short for a stamp, some
  // whose last bytes are above or below every revision of both stores.
  std::string name() {
    const std::string start = below(2) == 0 ? "k" : prefix();
    switch (below(4)) {
      case 0: return start + "/a long name";
      case 1: return start + stamp({below(2)});
      default: return start + static_cast<char>('0' + below(3));
    }
  }

  // The same few ranges repeatedly, read in all ways.
  Range some_range() {
    Range range =
        below(3) == 0 ? Range::key(name()) : Range::prefix(prefix().substr(0, 2 + below(2)));
    switch (below(6)) {
      case 0: range.before = {1}; break;
      case 1: range.before = {std::uint64_t{0x40} << 56U}; break;  // Above all revisions so far.
      case 2:
      case 3: range.before = this_apply; break;
      default: break;
    }
    range.skip = below(4) == 0 ? 1 : 0;
    switch (below(3)) {
      case 0: return range.first();
      case 1: return range.last();
      default: return range;
    }
  }

  void add_guard(Step& step) {
    Guard guard;
    switch (below(4)) {
      case 0: guard = Guard::absent(name()); break;
      case 1: guard = Guard::empty(Range::prefix(prefix())); break;
      case 2: guard = Guard::present(name()); break;
      default:
        if (appended.empty()) return;
        const Appended& one = appended[below(appended.size())];
        const bool present = below(2) == 0;
        step.here.guards.push_back(present ? Guard::present(one.here)
                                           : Guard::unchanged(one.here, stamp_of(one.here)));
        step.model.guards.push_back(present ? Guard::present(one.model)
                                            : Guard::unchanged(one.model, stamp_of(one.model)));
        return;
    }
    step.here.guards.push_back(guard);
    step.model.guards.push_back(guard);
  }

  void add_write(Step& step) {
    Write write;
    const std::string value = std::to_string(++values);
    switch (below(4)) {
      case 0: write = Write::put(name(), value); break;
      case 1: write = Write::remove(name()); break;
      case 2: write = Write::append(prefix(), value); break;
      default:
        if (appended.empty()) return;
        const Appended& one = appended[below(appended.size())];
        const bool remove = below(2) == 0;
        step.here.writes.push_back(remove ? Write::remove(one.here) : Write::put(one.here, value));
        step.model.writes.push_back(remove ? Write::remove(one.model)
                                           : Write::put(one.model, value));
        return;
    }
    step.here.writes.push_back(write);
    step.model.writes.push_back(write);
  }

  Step some_step() {
    Step step;
    for (std::size_t i = below(3); i > 0; --i) add_guard(step);
    for (std::size_t i = below(3); i > 0; --i) add_write(step);
    for (std::size_t i = below(4); i > 0; --i) {
      step.here.reads.push_back(some_range());
      step.model.reads.push_back(step.here.reads.back());
    }
    return step;
  }

  void note_appends(const Txn& txn, const Outcome& here, const Outcome& there) {
    for (const Write& write : txn.writes) {
      if (write.kind != Write::Kind::append) continue;
      appended.push_back({write.key + stamp(here.revision), write.key + stamp(there.revision)});
    }
    if (appended.size() > 12) appended.erase(appended.begin());
  }

  static std::vector<std::string> values_of(const Outcome& outcome) {
    std::vector<std::string> found;
    for (const auto& read : outcome.reads) {
      for (const Entry& entry : read) found.push_back(entry.value);
      found.emplace_back(";");
    }
    return found;
  }

  std::mt19937 random{20};  // NOLINT(cert-msc32-c,cert-msc51-cpp): the same each time.
  std::vector<Appended> appended;
  int values = 0;
};

TEST_F(SqliteKnown, IsNeverWrong) {
  const Directory directory;
  const std::array handles{open_sqlite(directory / "app.db", alone()),
                           open_sqlite(directory / "app.db", alone())};
  MemoryStore model;
  for (int i = 0; i < 20'000; ++i) {
    // Mostly long runs of one handle, so that there is something to remember.
    const std::size_t handle = i / 50 % 2 == 0 ? 0 : below(2);
    const Step step = some_step();
    const Outcome here = handles.at(handle)->apply(step.here);
    const Outcome there = model.apply(step.model);
    ASSERT_EQ(here.committed, there.committed) << "step " << i;
    ASSERT_EQ(values_of(here), values_of(there)) << "step " << i;
    if (here.committed) note_appends(step.here, here, there);
  }
}

// An apply that fails half-way has written nothing, so nothing of it may be remembered.
TEST_F(SqliteKnown, AFailedApplyIsForgotten) {
  const Directory directory;
  SqliteOptions options = alone();
  options.max_pages = 40;
  const auto store = open_sqlite(directory / "app.db", options);
  const Txn look = txn({Guard::present("a")}, {Write::put("b", "")});
  for (int i = 0; i < 20; ++i) {
    EXPECT_THROW(
        store->apply(txn({}, {Write::put("a", ""), Write::put("c", std::string(99'999, 'x'))},
                         {Range::key("a")})),
        StoreError);
    EXPECT_FALSE(store->apply(look).committed);
    EXPECT_TRUE(store->apply(txn({}, {Write::put("b", "")}, {Range::key("a")})).reads[0].empty());
  }
}

}  // namespace
}  // namespace tenure::sqlite
