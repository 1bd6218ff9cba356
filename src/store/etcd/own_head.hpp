// own_head.hpp: what a process knows while the head is the one that it put last.
//
// Whatever puts anything moves the head (plan.hpp). So as long as the head is its own, nobody else
// has put anything since: a range that was empty then is empty but for what this process put there,
// and need not be read again. Nothing is believed: the transaction compares the head, and one that
// was wrong is made anew, with all of its reads.
//
// That costs a round trip. So who was wrong leaves it for a while: for twice as many commits each
// time, and for fewer again where it was right.
//
// Thread safety: all of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/annotations.hpp"
#include "base/mutex.hpp"
#include "store/etcd/layout.hpp"
#include "tenure/store.hpp"

namespace tenure::etcd {

class OwnHead {
 public:
  // As it was put, and etcd's revision of it; and which of the reads need not be made.
  struct Use {
    Head head;
    std::int64_t put_at = 0;
    std::vector<bool> empty;
  };
  // Nothing: it is somebody else's, or likely to be.
  [[nodiscard]] std::optional<Use> use(const std::vector<Range>& reads);

  // It is our own, by a commit that put nothing but the keys, which nobody puts twice. `empty`:
  // what it read, and found nothing in but those. `on`: the head that it compared.
  struct Commit {
    Head head;
    std::int64_t put_at = 0;
    // Initializers, so that designated ones may leave members out.
    // NOLINTBEGIN(readability-redundant-member-init)
    std::optional<Head> on{};
    std::vector<std::string> keys{};
    std::vector<Range> empty{};
    // NOLINTEND(readability-redundant-member-init)
  };
  void moved(Commit commit);
  void removed(const std::string& key);
  // It was ours, as was believed.
  void was_ours();
  // It was not, or a guard did not hold.
  void was_not_ours();
  // It is not known what else was put.
  void forget();

 private:
  static constexpr std::size_t max_known = 1024;
  static constexpr unsigned shortest_pause = 64;
  static constexpr unsigned longest_pause = 4096;

  void clear() TENURE_REQUIRES(mutex_);
  void add(const Range& range) TENURE_REQUIRES(mutex_);
  [[nodiscard]] bool is_empty(const Range& range) const TENURE_REQUIRES(mutex_);

  base::Mutex mutex_;
  std::optional<Head> head_ TENURE_GUARDED_BY(mutex_);
  std::int64_t put_at_ TENURE_GUARDED_BY(mutex_) = 0;
  // Ranges that touch are one, from here to there. Nothing is in them but these keys, or some.
  std::map<std::string, std::string, std::less<>> empty_ TENURE_GUARDED_BY(mutex_);
  std::set<std::string, std::less<>> keys_ TENURE_GUARDED_BY(mutex_);
  unsigned pause_ TENURE_GUARDED_BY(mutex_) = shortest_pause;
  unsigned left_ TENURE_GUARDED_BY(mutex_) = 0;  // Of it, in commits.
};

}  // namespace tenure::etcd
