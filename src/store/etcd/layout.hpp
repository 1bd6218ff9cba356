// layout.hpp: where the parts of a store are in etcd.
//
//   PREFIX 0 'h'        the version of this layout, as a head with the largest revision: a program
//                       of an earlier version has its only head here, and refuses this one
//   PREFIX 0 'h' ORDER  the head of an order (numbers.hpp), in two bytes: stamp(revision)
//                       stamp(time) version; put by every apply that writes in the order
//   PREFIX 0 'k' KEY    an entry: stamp(changed) stamp(created) VALUE
//   PREFIX 0 'm' ID     a session's lease key, attached to its lease: etcd removes both together
//
// A prefix contains no zero byte, so stores with different prefixes do not overlap. Stamps compare
// like numbers, so etcd can compare values that begin with them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "store/common/sole_writer.hpp"
#include "store/etcd/numbers.hpp"
#include "tenure/store.hpp"

namespace tenure::etcd {

// Version 1 had no version in the head. Version 2: the path comes before the group in keys of
// tickets. Version 3: a head for each order.
inline constexpr unsigned layout_version = 3;

struct Head {
  Revision revision;
  Instant time;
};
// With etcd's revision of the head.
struct PutHead : Head {
  std::int64_t put_at = 0;
};
using SoleWriter = stores::SoleWriter<PutHead>;

struct Value {
  Revision changed;
  Revision created;
  std::string_view bytes;
};

class Layout {
 public:
  explicit Layout(const std::string& prefix) : root_(prefix + '\0') {}

  [[nodiscard]] std::string version() const { return root_ + 'h'; }
  [[nodiscard]] std::string head(OrderId order) const {
    return root_ + 'h' + static_cast<char>(order >> 8U) + static_cast<char>(order & 0xffU);
  }
  // The end of all heads.
  [[nodiscard]] std::string heads_end() const { return root_ + 'i'; }
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

  // The order whose head, the key of the entry, or the id of the session, is at this etcd key;
  // nothing: it is another key.
  [[nodiscard]] std::optional<OrderId> order_at(std::string_view etcd_key) const noexcept;
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
// What is at version().
[[nodiscard]] std::string version_value();
[[nodiscard]] std::string entry_value(const Value& value);

// The lease of a session by its id of 16 hexadecimal digits; nothing: no session has such an id.
[[nodiscard]] std::optional<std::int64_t> lease_of(std::string_view id) noexcept;

}  // namespace tenure::etcd
