// sole_writer.hpp: what a process need not read again while nobody else writes to a store.
//
// Every put moves the head of a store: its newest revision, or SQLite's data version. As long as
// the head is the one that this process made last, nobody else has put anything since: a range that
// was empty then has nothing in it but what this process put there, and need not be read. Where
// removals move the head as well, a key that was there then is still there.
//
// KnownEntries is that knowledge; SoleWriter is the knowledge of a process about a server, together
// with the head that it depends on. Nothing is taken on trust: the store compares the head in the
// same step, and an apply that relied on the wrong one is made anew, with all of its reads. That
// costs a round trip. So a process that was wrong reads everything for a while: for twice as many
// commits each time, and for fewer again after it was right.
//
// Thread safety: all of SoleWriter; none of KnownEntries.
#pragma once

#include <algorithm>
#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/annotations.hpp"
#include "base/mutex.hpp"
#include "tenure/store.hpp"

namespace tenure::stores {

class KnownEntries {
 public:
  // The range was read, and nothing was in it.
  void saw_nothing(const Range& range);
  // The key was read. `changed`: when that was; zero: not known.
  void saw(std::string_view key, Revision changed = {});
  void put(std::string_view key, Revision changed = {});
  // A key that was put is in a range in which nothing else was seen.
  void keep_own(std::string_view key);
  void remove(std::string_view key);
  void clear() noexcept;

  // Nothing is in the range with a stamp before `before`; zero: nothing at all.
  [[nodiscard]] bool empty(const Range& range, Revision before = {}) const;
  [[nodiscard]] bool present(std::string_view key) const noexcept { return find(key) != nullptr; }
  [[nodiscard]] bool unchanged(std::string_view key, Revision since) const noexcept {
    const Present* const found = find(key);
    return found != nullptr && found->changed == since && since != Revision{};
  }

 private:
  struct Present {
    std::string key;
    Revision changed;
  };
  [[nodiscard]] const Present* find(std::string_view key) const noexcept;
  static constexpr std::size_t max_ranges = 1024;
  static constexpr std::size_t max_own = 1024;
  static constexpr std::size_t max_present = 16;
  static constexpr int max_looked_at = 16;  // Of the own keys in one range.

  std::map<std::string, std::string, std::less<>> ranges_;  // From, to; those that touch are one.
  std::set<std::string, std::less<>> own_;                  // The only keys in those ranges.
  std::deque<Present> present_;                             // The last that were seen or put.
};

// A key that a commit made, changed or removed.
struct Change {
  std::string key;
  bool removed = false;
};
[[nodiscard]] std::vector<Change> changes_of(const Txn& txn, Revision revision);

// `Head` is what the store compares; it has a `revision`.
template <typename Head>
class SoleWriter {
 public:
  // What to compare, which of the reads need not be made, and whether the key is there.
  struct Use {
    Head head;
    std::vector<bool> empty;
    bool present = false;
  };
  // Nothing: the head is another process's, or likely to be.
  [[nodiscard]] std::optional<Use> use(const std::vector<Range>& reads, std::string_view key = {}) {
    const base::Mutex::Scoped lock{mutex_};
    if (left_ > 0) {
      --left_;
      return std::nullopt;
    }
    if (!head_) return std::nullopt;
    Use use{.head = *head_, .empty = {}, .present = !key.empty() && known_.present(key)};
    use.empty.reserve(reads.size());
    for (const Range& range : reads) use.empty.push_back(known_.empty(range));
    return use;
  }

  // A commit of this process moved the head. `on`: the head before it, if that is known. `changes`:
  // all that it wrote, in order. `empty`: what it read, and found nothing in but what it wrote.
  // `present`: a key that was there.
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
  // Answers may come in another order than commits were made in.
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
  // Where that does not move the head.
  void removed(const std::string& key) {
    const base::Mutex::Scoped lock{mutex_};
    known_.remove(key);
  }

  // The head was this process's, as was believed.
  void was_ours() {
    const base::Mutex::Scoped lock{mutex_};
    pause_ = std::max(pause_ - (pause_ / 16), shortest_pause);
  }
  // It was not, or a guard did not hold.
  void was_not_ours() {
    const base::Mutex::Scoped lock{mutex_};
    head_.reset();
    left_ = pause_;
    pause_ = std::min(pause_ * 2, longest_pause);
  }
  // It is not known what else was put.
  void forget() {
    const base::Mutex::Scoped lock{mutex_};
    head_.reset();
  }

 private:
  static constexpr unsigned shortest_pause = 64;
  static constexpr unsigned longest_pause = 4096;

  base::Mutex mutex_;
  std::optional<Head> head_ TENURE_GUARDED_BY(mutex_);
  Revision newest_ TENURE_GUARDED_BY(mutex_);  // That it ever was.
  KnownEntries known_ TENURE_GUARDED_BY(mutex_);
  unsigned pause_ TENURE_GUARDED_BY(mutex_) = shortest_pause;
  unsigned left_ TENURE_GUARDED_BY(mutex_) = 0;  // Of it, in commits.
};

}  // namespace tenure::stores
