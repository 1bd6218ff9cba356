// sole_writer.hpp: what a process need not read again while no other process writes to the store.
//
// Every put moves the head of a store: its newest revision, or SQLite's data version. As long as
// the head is the one that this process made last, no other process has put anything since. A range
// that was empty then contains only what this process put there, and need not be read. If removals
// move the head as well, a key that existed then still exists.
//
// A store that orders each root by itself has a head for each order, and this object for each.
//
// KnownEntries is this knowledge; SoleWriter is the knowledge of a process about a server, together
// with the head that it depends on. The store always compares the head in the same transaction: an
// apply that relied on the wrong head is made again, with all of its reads, which costs a round
// trip. So a process that was wrong reads everything for a while: twice as many commits each time,
// and fewer again after it was right.
//
// Thread safety: all of SoleWriter; none of KnownEntries.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/annotations.hpp"
#include "base/mutex.hpp"
#include "tenure/store.hpp"

namespace tenure::stores {

class KnownEntries {
 public:
  static constexpr std::size_t most_ranges = 1024;
  explicit KnownEntries(std::size_t max_ranges = most_ranges) : max_ranges_(max_ranges) {}

  // The range was read, and was empty.
  void saw_nothing(const Range& range);
  // The key was read, and exists. `changed`: the revision that it has; zero: not known.
  void saw(std::string_view key, Revision changed = {});
  void put(std::string_view key, Revision changed = {});
  // A key that was put is in a range in which nothing else was seen.
  void keep_own(std::string_view key);
  void remove(std::string_view key);
  void clear() noexcept;

  // No key of the range has a stamp before `before`; zero: the range is empty.
  [[nodiscard]] bool empty(const Range& range, Revision before = {}) const;
  [[nodiscard]] bool present(std::string_view key) const noexcept { return find(key) != nullptr; }
  [[nodiscard]] bool unchanged(std::string_view key, Revision since) const noexcept {
    const Revision* const found = find(key);
    return found != nullptr && *found == since && since != Revision{};
  }

 private:
  struct Put {
    std::string key;  // Its memory is used again.
    Revision changed;
    bool known = false;
  };
  struct Hash {
    using is_transparent = void;
    [[nodiscard]] std::size_t operator()(std::string_view key) const noexcept {
      return std::hash<std::string_view>{}(key);
    }
  };
  [[nodiscard]] static std::uint64_t size_bit(std::string_view key) noexcept {
    return std::uint64_t{1} << (key.size() % 64);
  }
  // Of the last ones that were put; null: the key is not among them.
  [[nodiscard]] const Put* find_put(std::string_view key) const noexcept;
  [[nodiscard]] Put* find_put(std::string_view key) noexcept {
    return const_cast<Put*>(std::as_const(*this).find_put(key));
  }
  // The revision of a key that exists; null: not known.
  [[nodiscard]] const Revision* find(std::string_view key) const noexcept;
  static constexpr std::size_t max_own = 1024;
  static constexpr std::size_t max_seen = 512;
  static constexpr std::size_t max_put = 16;
  static constexpr int max_looked_at = 16;  // Known keys in one range that are checked.

  std::size_t max_ranges_;
  std::map<std::string, std::string, std::less<>> ranges_;  // From, to; adjacent ranges are merged.
  std::set<std::string, std::less<>> own_;                  // The only keys in those ranges.
  // Keys that were asked for are asked for again: guards of many transactions are the same. Keys
  // that were put come and go, and must not displace them.
  std::unordered_map<std::string, Revision, Hash, std::equal_to<>> seen_;
  std::uint64_t seen_sizes_ = 0;  // A bit for each size, modulo 64, that a key of seen_ had.
  std::array<Put, max_put> put_;  // The last ones, apart from those in seen_.
  std::size_t next_put_ = 0;
};

// A key that a commit created, changed or removed.
struct Change {
  std::string key;
  bool removed = false;
};
[[nodiscard]] std::vector<Change> changes_of(const Txn& txn, Revision revision);
// Whether a read of the range, in the apply that makes these writes, may find one of them.
[[nodiscard]] bool may_read_own(const Range& range, const std::vector<Write>& writes);

// `Head` is what the store compares; it has a member `revision`.
template <typename Head>
class SoleWriter {
 public:
  explicit SoleWriter(std::size_t max_ranges = KnownEntries::most_ranges) : known_(max_ranges) {}

  // The head to compare, which of the reads can be left out, and whether the key exists.
  struct Use {
    Head head;
    std::vector<bool> empty;
    bool present = false;
  };
  // Of an apply with these writes and reads. Nothing: another process has moved the head, or
  // probably has.
  [[nodiscard]] std::optional<Use> use(const Txn& txn, std::string_view key = {}) {
    const base::Mutex::Scoped lock{mutex_};
    if (left_ > 0) {
      --left_;
      return std::nullopt;
    }
    if (!head_) return std::nullopt;
    Use use{.head = *head_, .empty = {}, .present = !key.empty() && known_.present(key)};
    use.empty.reserve(txn.reads.size());
    for (const Range& range : txn.reads) {
      use.empty.push_back(known_.empty(range) && !may_read_own(range, txn.writes));
    }
    return use;
  }

  // A commit of this process moved the head. `on`: the head before it, if known. `changes`:
  // everything that it wrote, in order. `empty`: ranges that it read and that contain only what it
  // wrote. `present`: a key that exists.
  struct Commit {
    Head head;
    // Initializers, so that designated ones may leave members out.
    // NOLINTBEGIN(readability-redundant-member-init)
    std::optional<Revision> on{};
    std::vector<Change> changes{};
    std::vector<Range> empty{};
    std::string present{};
    // NOLINTEND(readability-redundant-member-init)
  };
  // Answers may arrive in another order than the commits were made.
  void moved(const Commit& commit) {
    const base::Mutex::Scoped lock{mutex_};
    if (commit.head.revision <= newest_) return;
    if (!head_ || commit.on != head_->revision) known_.clear();
    newest_ = commit.head.revision;
    head_ = commit.head;
    for (const Range& range : commit.empty) known_.saw_nothing(range);
    if (!commit.present.empty()) known_.saw(commit.present);
    for (const Change& change : commit.changes) {
      change.removed ? known_.remove(change.key) : known_.put(change.key);
    }
  }
  // For a removal that does not move the head.
  void removed(const std::string& key) {
    const base::Mutex::Scoped lock{mutex_};
    known_.remove(key);
  }

  // The head was this process's own, as assumed.
  void was_ours() {
    const base::Mutex::Scoped lock{mutex_};
    pause_ = std::max(pause_ - (pause_ / 16), shortest_pause);
  }
  // The head was another process's, or a guard did not hold.
  void was_not_ours() {
    const base::Mutex::Scoped lock{mutex_};
    head_.reset();
    left_ = pause_;
    pause_ = std::min(pause_ * 2, longest_pause);
  }
  // Unknown transactions may have been committed.
  void forget() {
    const base::Mutex::Scoped lock{mutex_};
    head_.reset();
    known_.clear();
  }

 private:
  static constexpr unsigned shortest_pause = 64;
  static constexpr unsigned longest_pause = 4096;

  base::Mutex mutex_;
  std::optional<Head> head_ TENURE_GUARDED_BY(mutex_);
  Revision newest_ TENURE_GUARDED_BY(mutex_);  // The newest head that this process ever made.
  KnownEntries known_ TENURE_GUARDED_BY(mutex_);
  unsigned pause_ TENURE_GUARDED_BY(mutex_) = shortest_pause;
  unsigned left_ TENURE_GUARDED_BY(mutex_) = 0;  // The rest of the current pause, in commits.
};

}  // namespace tenure::stores
