// own_head.hpp: what a process knows while the newest revision of a store is its own.
//
// Whoever puts anything moves the head, in every store that counts its revisions in one place. So
// as long as the head is the one that this process made last, nobody else has put anything since: a
// range that was empty then is empty but for what this process put there, and need not be read
// again. Where removals move it as well, what was there then is there. Nothing is believed: the
// store compares the head in the same step, and one that was wrong is made anew, with all of its
// reads.
//
// That costs a round trip. So who was wrong leaves it for a while: for twice as many commits each
// time, and for fewer again where it was right.
//
// Thread safety: all of OwnHead; none of EmptyRanges.
#pragma once

#include <algorithm>
#include <cstddef>
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

// Ranges with nothing in them but certain keys.
class EmptyRanges {
 public:
  // It was found empty, so none of the keys is in it any more.
  void add(const Range& range);
  void put(std::string key) { keys_.insert(std::move(key)); }
  void remove(const std::string& key) { keys_.erase(key); }
  void clear();
  [[nodiscard]] bool covers(const Range& range) const;
  [[nodiscard]] std::size_t size() const noexcept { return ranges_.size() + keys_.size(); }

 private:
  std::map<std::string, std::string, std::less<>> ranges_;  // From, to; those that touch are one.
  std::set<std::string, std::less<>> keys_;                 // All of them, or some that are gone.
};

// `Head` is what the store compares; it has a `revision`.
template <typename Head>
class OwnHead {
 public:
  // What to compare, which of the reads need not be made, and whether the key is there.
  struct Use {
    Head head;
    std::vector<bool> empty;
    bool present = false;
  };
  // Nothing: it is somebody else's, or likely to be.
  [[nodiscard]] std::optional<Use> use(const std::vector<Range>& reads, std::string_view key = {}) {
    const base::Mutex::Scoped lock{mutex_};
    if (left_ > 0) {
      --left_;
      return std::nullopt;
    }
    if (!head_) return std::nullopt;
    Use use{.head = *head_, .empty = {}, .present = !key.empty() && key == present_};
    use.empty.reserve(reads.size());
    for (const Range& range : reads) use.empty.push_back(known_.covers(range));
    return use;
  }

  // It is our own, by a commit that put nothing but the keys, which nobody puts twice. `empty`:
  // what it read, and found nothing in but those. `present`: a key that was there. `removed`: one
  // that is not, any more. `on`: the revision that was the newest before.
  struct Commit {
    Head head;
    // Initializers, so that designated ones may leave members out.
    // NOLINTBEGIN(readability-redundant-member-init)
    std::optional<Revision> on{};
    std::vector<std::string> keys{};
    std::vector<Range> empty{};
    std::string present{};
    std::string removed{};
    // NOLINTEND(readability-redundant-member-init)
  };
  // Answers may come in another order than commits were made in.
  void moved(Commit commit) {
    const base::Mutex::Scoped lock{mutex_};
    if (commit.head.revision <= newest_) return;
    const bool goes_on = head_ && commit.on == head_->revision;
    if (!goes_on || known_.size() > max_known) known_.clear();
    if (!goes_on || !commit.present.empty()) present_ = std::move(commit.present);
    newest_ = commit.head.revision;
    head_ = std::move(commit.head);
    for (const Range& range : commit.empty) known_.add(range);
    for (std::string& key : commit.keys) known_.put(std::move(key));
    remove(commit.removed);
  }
  // Where that does not move the head.
  void removed(const std::string& key) {
    const base::Mutex::Scoped lock{mutex_};
    remove(key);
  }

  // It was ours, as was believed.
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
  static constexpr std::size_t max_known = 1024;
  static constexpr unsigned shortest_pause = 64;
  static constexpr unsigned longest_pause = 4096;

  void remove(const std::string& key) TENURE_REQUIRES(mutex_) {
    known_.remove(key);
    if (key == present_) present_.clear();
  }

  base::Mutex mutex_;
  std::optional<Head> head_ TENURE_GUARDED_BY(mutex_);
  Revision newest_ TENURE_GUARDED_BY(mutex_);  // That it ever was.
  EmptyRanges known_ TENURE_GUARDED_BY(mutex_);
  std::string present_ TENURE_GUARDED_BY(mutex_);  // The last such key.
  unsigned pause_ TENURE_GUARDED_BY(mutex_) = shortest_pause;
  unsigned left_ TENURE_GUARDED_BY(mutex_) = 0;  // Of it, in commits.
};

}  // namespace tenure::stores
