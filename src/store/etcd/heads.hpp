// heads.hpp: the heads of orders in requests to etcd and in answers.
//
// Thread safety: values and pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "rpc.pb.h"
#include "store/etcd/layout.hpp"
#include "store/etcd/requests.hpp"
#include "store/etcd/scope.hpp"

namespace tenure::etcd {

// Heads at one moment.
struct Heads {
  struct One {
    OrderId order;
    Head head;
    std::int64_t put_at;  // etcd's revision of it.
  };
  std::vector<One> all;
  // The last commit in any of these orders: its number, and etcd's revision of it. Within one order
  // it is the largest number, too.
  Revision newest;
  std::int64_t newest_at = 0;

  void add(const One& one);
  // The largest number in an order, or in top_order, if that one counts there as well.
  [[nodiscard]] Revision largest_in(const Scope& scope) const noexcept;
  [[nodiscard]] bool has(OrderId order) const noexcept;
};

using Ops = google::protobuf::RepeatedPtrField<pb::RequestOp>;
using Results = google::protobuf::RepeatedPtrField<pb::ResponseOp>;

// Reads the heads of a scope; of all roots, the one with the largest number and the one that was
// moved last. So many operations:
[[nodiscard]] int head_reads(const Scope& scope) noexcept;
void add_head_reads(const Layout& layout, const Scope& scope, Ops& ops);
// From the result at index `first` on. A root that has no head has no entry.
[[nodiscard]] Heads parse_heads(const Layout& layout, const Scope& scope, const Results& results,
                                int first);
// Whether a transaction in the scope finds all heads that it compares.
[[nodiscard]] bool has_all(const Heads& heads, const Scope& scope) noexcept;

// All heads of the scope are smaller.
void compare_heads(pb::TxnRequest& request, const Layout& layout, const Scope& scope,
                   Revision revision);
// Of all heads of a store, the one that was moved last.
[[nodiscard]] pb::RangeRequest last_moved(const Layout& layout);

}  // namespace tenure::etcd
