// Random transactions, compared with a naive model of a store.
#include <rapidcheck.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "store/common/orders.hpp"
#include "store/conformance.hpp"

namespace tenure::conformance {
namespace {

using namespace std::string_literals;

// Answers every question by looking at every entry.
class Model {
 public:
  // `revision` is the one that the store returned.
  Outcome apply(const Txn& txn, Revision revision) {
    Outcome outcome;
    outcome.revision = revision;
    outcome.committed = true;
    for (const Guard& guard : txn.guards) outcome.committed = outcome.committed && holds(guard);
    const bool writes = outcome.committed && !txn.writes.empty();
    if (writes) {
      for (const Write& write : txn.writes) make(write, revision);
    }
    for (Range range : txn.reads) {
      if (range.before == this_apply) range.before = writes ? revision : Revision{};
      outcome.reads.push_back(read(range));
    }
    return outcome;
  }

 private:
  [[nodiscard]] bool holds(const Guard& guard) const {
    const auto at = entries_.find(guard.range.from);
    const bool there = at != entries_.end();
    if (guard.kind == Guard::Kind::absent) return !there;
    if (guard.kind == Guard::Kind::present) return there;
    if (guard.kind == Guard::Kind::unchanged) {
      return there && at->second.changed == guard.revision;
    }
    return std::ranges::none_of(entries_, [&](const auto& entry) {
      return guard.range.holds(entry.first) && entry.second.changed > guard.revision;
    });
  }

  void make(const Write& write, Revision revision) {
    const std::string key =
        write.kind == Write::Kind::append ? write.key + stamp(revision) : write.key;
    if (write.kind == Write::Kind::remove) {
      entries_.erase(key);
      return;
    }
    const Revision created = entries_.contains(key) ? entries_[key].created : revision;
    entries_[key] = {key, write.value, created, revision};
  }

  [[nodiscard]] std::vector<Entry> read(const Range& range) const {
    std::vector<Entry> found;
    for (const auto& [key, entry] : entries_) {
      const bool counts = range.before == Revision{} || stamp_of(key) < range.before;
      if (range.holds(key) && counts) found.push_back(entry);
    }
    if (range.reverse) std::ranges::reverse(found);
    found.erase(found.begin(),
                found.begin() + std::min<std::ptrdiff_t>(range.skip, std::ssize(found)));
    if (range.limit != 0 && found.size() > range.limit) found.resize(range.limit);
    return found;
  }

  std::map<std::string, Entry> entries_;
};

// What a script is made of: keys of tickets, and revisions that are compared with others.
struct Part {
  bool tickets = true;
  bool numbers = true;
};

// Builds transactions from bytes; any bytes are valid.
class Script {
 public:
  Script(std::span<const std::uint8_t> bytes, Part part) : bytes_(bytes), part_(part) {}
  [[nodiscard]] bool over() const { return bytes_.empty(); }
  void know(Revision revision) { known_.push_back(revision); }

  Txn transaction() {
    Txn txn;
    // Mostly none: a transaction that is refused changes nothing.
    for (unsigned n = next(2) == 0 ? 0 : next(3); n > 0; --n) txn.guards.push_back(guard());
    for (unsigned n = next(4); n > 0; --n) add_write(txn.writes);
    for (unsigned n = 1 + next(2); n > 0; --n) txn.reads.push_back(range());
    if (next(8) == 1) txn.durability = Durability::full;
    return txn;
  }

 private:
  unsigned next(unsigned below) {
    if (bytes_.empty()) return 0;
    const unsigned value = bytes_.front() % below;
    bytes_ = bytes_.subspan(1);
    return value;
  }

  // Keys with a stamp below all revisions, near them, or above all; and keys too short for a stamp.
  std::string key() {
    std::string start = part();
    switch (next(8)) {
      case 0: return start;
      case 1: return start + "/unstamped";
      case 2: return start + stamp(this_apply);
      // Never a later one: only an append may make that key.
      case 3: return start + stamp(given());
      default: return start + stamp({next(3)});
    }
  }
  std::string part() {
    // The last ones are tickets: of two roots, one of them also shared, and of the path /.
    constexpr unsigned first_ticket = 8;
    static const std::array<std::string, 12> keys = {
        "a",        "b", "ab",         "a\0"s,       "a\xff",        "\xff",
        "\xff\xff", "m", "\1\1\1a\0"s, "\1\1\1b\0"s, "\2\1\1\1a\0"s, "\1\0"s};
    return keys.at(next(part_.tickets ? keys.size() : first_ticket));
  }

  Revision given() {
    if (known_.empty()) return {};
    return known_[known_.size() - 1 - next(std::min(16U, count()))];
  }
  Revision revision() {
    const Revision one = given();
    return one == Revision{} ? one : Revision{one.value + next(3) - 1};
  }
  [[nodiscard]] unsigned count() const { return static_cast<unsigned>(known_.size()); }

  // Often one of the last ranges, read in another way: stores remember what they found in a range.
  Range span() {
    if (!spans_.empty() && next(2) == 0) return spans_[next(std::min(3U, spans()))];
    Range range = next(2) == 0 ? everything() : Range::prefix(part());
    switch (next(5)) {
      case 1: range = Range::key(key()); break;
      case 2: range = between(part(), key()); break;
      case 3: range = between(key(), ""); break;
      default: break;
    }
    spans_.insert(spans_.begin(), range);
    return range;
  }
  [[nodiscard]] unsigned spans() const { return static_cast<unsigned>(spans_.size()); }

  Range range() {
    Range range = span();
    range.limit = next(4);
    range.skip = next(3);
    range.reverse = next(2) == 1;
    const unsigned before = next(4);
    if (before == 1) range.before = this_apply;
    if (before == 2) range.before = revision();
    return range;
  }

  Guard guard() {
    switch (next(5)) {
      case 0: return Guard::absent(key());
      case 1: return Guard::present(key());
      case 2: return Guard::unchanged(key(), revision());
      case 3: return Guard::empty(range());
      default: return Guard::quiet(range(), part_.numbers ? revision() : Revision{});
    }
  }

  void add_write(std::vector<Write>& writes) {
    const unsigned kind = next(4);
    std::string where = key();
    if (kind == 1) return writes.push_back(Write::remove(std::move(where)));
    std::string value(next(3), static_cast<char>(next(256)));
    // Two appends to one prefix in one apply would make one key.
    const bool again = std::ranges::any_of(writes, [&](const Write& write) {
      return write.kind == Write::Kind::append && write.key == where;
    });
    if (kind == 2 && !again) {
      return writes.push_back(Write::append(std::move(where), std::move(value)));
    }
    writes.push_back(Write::put(std::move(where), std::move(value)));
  }

  std::span<const std::uint8_t> bytes_;
  const Part part_;
  std::vector<Revision> known_;
  std::vector<Range> spans_;  // The last one first.
};

// What a revision has to be larger than: the largest one in each order that an apply touches. A
// store may have fewer orders than these.
class Orders {
 public:
  [[nodiscard]] Revision newest(const Txn& txn) const {
    Revision found;
    for (const auto& [order, revision] : newest_) {
      const bool top = order == stores::all_orders;  // Its applies are in all orders.
      if (top || touches(txn, order)) found = std::max(found, revision);
    }
    return found;
  }
  void raise(const Txn& txn, Revision to) {
    for (auto& [order, revision] : newest_) {
      if (order != stores::all_orders && touches(txn, order)) revision = to;
    }
    for (const Write& write : txn.writes) newest_[stores::order_of_key(write.key)] = to;
  }

 private:
  [[nodiscard]] static bool touches(const Txn& txn, std::string_view order) {
    const auto writes = [order](const Write& write) {
      const std::string name = stores::order_of_key(write.key);
      return name == order || name == stores::all_orders;
    };
    const auto reads = [order](const Range& range) { return stores::order_of(range) == order; };
    return std::ranges::any_of(txn.writes, writes) || std::ranges::any_of(txn.reads, reads);
  }

  std::map<std::string, Revision, std::less<>> newest_;
};

void play(Store& store, std::span<const std::uint8_t> bytes, Part part) {
  Model model;
  Script script{bytes, part};
  Orders orders;
  std::set<Revision> used;
  while (!script.over()) {
    const Txn txn = script.transaction();
    const Outcome outcome = store.apply(txn);
    const Outcome expected = model.apply(txn, outcome.revision);
    RC_ASSERT(outcome.committed == expected.committed);
    RC_ASSERT(outcome.reads == expected.reads);
    if (outcome.committed && !txn.writes.empty()) {
      RC_ASSERT(!part.numbers || outcome.revision > orders.newest(txn));
      RC_ASSERT(used.insert(outcome.revision).second);
      orders.raise(txn, outcome.revision);
    } else {
      Txn reads;
      reads.reads = txn.reads;
      RC_ASSERT(!part.numbers || outcome.revision >= orders.newest(reads));
    }
    script.know(outcome.revision);
  }
}

// rapidcheck shrinks a script that fails by playing shorter ones, each in a new store, which takes
// minutes on a server. After this time all further ones count as passed, so that the shortest one
// found so far is printed before the test reaches its time limit.
constexpr std::chrono::seconds shrink_time{20};

TEST_P(StoreConformance, DoesWhatTheModelDoes) {
  using Clock = std::chrono::steady_clock;
  const auto scripts = rc::gen::scale(8.0, rc::gen::arbitrary<std::vector<std::uint8_t>>());
  const std::vector<Part> parts = GetParam().compares_roots
                                      ? std::vector<Part>{{}}
                                      : std::vector<Part>{{.tickets = false}, {.numbers = false}};
  std::optional<Clock::time_point> shrink_until;
  EXPECT_TRUE(rc::check([&] {
    const std::vector<std::uint8_t> script = *scripts;
    if (shrink_until && Clock::now() >= *shrink_until) return;
    try {
      for (const Part& part : parts) play(*GetParam().make().open(), script, part);
    } catch (...) {
      if (!shrink_until) shrink_until = Clock::now() + shrink_time;
      throw;
    }
  }));
}

}  // namespace
}  // namespace tenure::conformance
