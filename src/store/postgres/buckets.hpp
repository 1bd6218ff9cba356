// buckets.hpp: which applies are numbered one after another.
//
// The table `head` has bucket_count rows, the buckets. An apply locks those of everything that it
// touches, lowest first, until its commit; its revision is larger than all that these rows have
// seen. So applies with a bucket in common are in one order, and others do not wait for each other.
//
//   keys                                  bucket        a guard or a read of one
//   of tickets                            of the root   that bucket
//   of tickets on the path /              all           none: whoever writes it locks all
//   \x03, sessions: put, ended            plain_bucket  a guard: none; a read: plain_bucket
//   \x03, sessions: removed by others     all
//   \x04, void connections; \x07, map     all           none
//   \x05, request ids; \x10, \x11, flow   flow_bucket   flow_bucket
//   \x06, tickets by owner                none          none: its ticket's bucket is locked
//   all others                            plain_bucket  plain_bucket
//
// A root has a bucket by its hash, except "tenure": the partitions of workflows are below it, and
// are in the bucket of workflows. A guard on a range that is not in one bucket locks all of them; a
// read of one locks none, and tells what is there at the moment.
//
// Thread safety: pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "tenure/store.hpp"

namespace tenure::postgres {

// All programs that use a schema must agree on these: another layout is another schema version.
inline constexpr int bucket_count = 254;
inline constexpr int plain_bucket = 0;
inline constexpr int flow_bucket = 1;
// The lowest bits of a revision are the lowest bucket that its apply had locked: no other order
// makes the same one.
inline constexpr unsigned bucket_bits = 8;
inline constexpr std::uint64_t revision_step = 1U << bucket_bits;

class Buckets {
 public:
  [[nodiscard]] bool all() const noexcept { return all_; }
  // In ascending order; none if all are locked.
  [[nodiscard]] const std::vector<int>& list() const noexcept { return list_; }
  // The only one.
  [[nodiscard]] std::optional<int> one() const noexcept {
    return !all_ && list_.size() == 1 ? std::optional{list_.front()} : std::nullopt;
  }
  [[nodiscard]] int lowest() const noexcept { return all_ ? plain_bucket : list_.front(); }
  void add(int bucket);
  void add(const Buckets& others);
  void add_all() noexcept {
    all_ = true;
    list_.clear();
  }

 private:
  std::vector<int> list_;
  bool all_ = false;
};

// At least one. `own_session`: the session whose entry it removes is this process's own, and
// nothing else is guarded on it any more.
[[nodiscard]] Buckets buckets_of(const Txn& txn, bool own_session = false);

// The bucket whose writers tell of changes of this key; null: that of any apply that writes it.
[[nodiscard]] std::optional<int> notice_bucket(std::string_view key);
// Null: several.
[[nodiscard]] std::optional<int> notice_bucket(const Range& range);
// Of a range over several buckets: whether whoever reads it locks all of them, so that the revision
// of the read can be compared with what follows in each.
[[nodiscard]] bool is_below_top(const Range& range);

}  // namespace tenure::postgres
