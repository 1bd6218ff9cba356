// scope.hpp: which orders a transaction is in. A store orders the applies of each root by
// themselves (store/common/orders.hpp):
//
//   keys                                  order
//   --------------------------------------+------------------------------------------------------
//   tickets below a root                  that of the root: one of `root_orders`, by its hash
//   tickets on /                          all roots: after all of them, before all later ones
//   request ids \x05, owners' index \x06  that of the tickets in the same transaction; without
//                                         tickets, the next line
//   everything else: sessions, flows, the other_order
//   shard map, the keys of programs
//
// A transaction that writes is ordered with everything else in the orders of its writes. One that
// only reads is told the last commit in the orders of what it reads and guards.
//
// The hash is part of the layout in etcd: all clients must agree on it.
//
// Thread safety: values and pure functions.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "store/etcd/numbers.hpp"
#include "tenure/store.hpp"

namespace tenure::etcd {

struct Scope {
  bool all = false;  // All roots, and what is on /.
  bool top = false;  // Only what is on /.
  bool other = false;
  // Rising; empty if `all`. Initialized, so that designated initializers may leave it out.
  std::vector<OrderId> roots{};  // NOLINT(readability-redundant-member-init)

  // A transaction in more roots than this is in all of them: etcd limits its operations.
  static constexpr std::size_t max_roots = 4;

  // The heads that a write in this scope puts. The first one's order is in its revision.
  [[nodiscard]] std::vector<OrderId> moved() const;
  [[nodiscard]] OrderId first() const { return moved().front(); }
  // It moves one head, and depends on no other root's.
  [[nodiscard]] bool single() const noexcept {
    return !all && !top && roots.size() + (other ? 1 : 0) == 1;
  }
  [[nodiscard]] bool is_empty() const noexcept { return !all && !top && !other && roots.empty(); }
  // Whether the head of top_order counts as well.
  [[nodiscard]] bool below_top() const noexcept { return all || top || !roots.empty(); }
  void add(const Scope& scope);
  friend bool operator==(const Scope&, const Scope&) = default;
};

[[nodiscard]] Scope scope_of(const Range& range);
[[nodiscard]] Scope written_by(const Txn& txn);
[[nodiscard]] Scope touched_by(const Txn& txn);
// Whether nothing in the range can change unless the head of the order does, or that of top_order.
[[nodiscard]] bool is_in(OrderId order, const Range& range);

}  // namespace tenure::etcd
