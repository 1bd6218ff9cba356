// layout.hpp: where the parts of a store are in etcd.
//
//   PREFIX 0 'h'      the head: stamp(revision) stamp(time) version, put by every apply that puts a
//                     key; the version is that of this layout and of the keys of entries
//   PREFIX 0 'h' 't'  the tail: stamp(time), put by every apply that only removes; etcd's revision
//                     of the tail counts (numbers.hpp), and the time identifies the apply
//   PREFIX 0 'k' KEY  an entry: stamp(changed) stamp(created) VALUE
//   PREFIX 0 'm' ID   a session's lease key, attached to its lease: etcd removes both together
//
// A prefix contains no zero byte, so stores with different prefixes do not overlap. Stamps compare
// like numbers, so etcd can compare values that begin with them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "store/common/sole_writer.hpp"
#include "tenure/store.hpp"

namespace tenure::etcd {

// Version 1 had no version in the head. Version 2: the path comes before the group in keys of
// tickets.
inline constexpr unsigned layout_version = 2;

struct Head {
  Revision revision;
  Instant time;
};
// With etcd's revision of the head.
struct PutHead : Head {
  std::int64_t put_at = 0;
};
using SoleWriter = stores::SoleWriter<PutHead>;

// Head and tail at one moment. etcd's revisions of both give the store's newest revision
// (numbers.hpp).
struct Position {
  Head head;
  std::int64_t put_at = 0;  // etcd's revision of the head.
  Revision newest;
  std::int64_t newest_at = 0;  // etcd's revision of `newest`.
};

struct Value {
  Revision changed;
  Revision created;
  std::string_view bytes;
};

class Layout {
 public:
  explicit Layout(const std::string& prefix) : root_(prefix + '\0') {}

  [[nodiscard]] std::string head() const { return root_ + 'h'; }
  [[nodiscard]] std::string tail() const { return root_ + "ht"; }
  // The end of a range with both.
  [[nodiscard]] std::string tail_end() const { return root_ + 'i'; }
  [[nodiscard]] std::string key(std::string_view key) const { return (root_ + 'k').append(key); }
  // The end of all entries.
  [[nodiscard]] std::string keys_end() const { return root_ + 'l'; }
  [[nodiscard]] std::string lease_key(std::string_view id) const {
    return (root_ + 'm').append(id);
  }
  // The end of everything.
  [[nodiscard]] std::string end() const { return root_ + 'n'; }
  // Where a range of entries ends.
  [[nodiscard]] std::string range_end(const Range& range) const {
    return range.to.empty() ? keys_end() : key(range.to);
  }

  // The key of the entry, or the id of the session, at this etcd key; nothing: it has neither.
  [[nodiscard]] std::optional<std::string_view> entry_at(std::string_view etcd_key) const noexcept {
    return behind('k', etcd_key);
  }
  [[nodiscard]] std::optional<std::string_view> lease_key_at(
      std::string_view etcd_key) const noexcept {
    return behind('m', etcd_key);
  }

 private:
  [[nodiscard]] std::optional<std::string_view> behind(char kind,
                                                       std::string_view etcd_key) const noexcept;
  const std::string root_;
};

// Throw StoreError for a value that Tenure did not write, or that another version wrote.
[[nodiscard]] Head parse_head(std::string_view value);
[[nodiscard]] Value parse_value(std::string_view value);
[[nodiscard]] std::string head_value(const Head& head);
[[nodiscard]] std::string tail_value(Instant time);
[[nodiscard]] std::string entry_value(const Value& value);

// The lease of a session by its id of 16 hexadecimal digits; nothing: no session has such an id.
[[nodiscard]] std::optional<std::int64_t> lease_of(std::string_view id) noexcept;

}  // namespace tenure::etcd
