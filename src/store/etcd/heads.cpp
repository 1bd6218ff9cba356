#include "store/etcd/heads.hpp"

#include <algorithm>

namespace tenure::etcd {
namespace {

pb::RangeRequest first_by(const Layout& layout, OrderId from, pb::RangeRequest::SortTarget target) {
  pb::RangeRequest request;
  request.set_key(layout.head(from));
  request.set_range_end(layout.heads_end());
  request.set_sort_target(target);
  request.set_sort_order(pb::RangeRequest::DESCEND);
  request.set_limit(1);
  return request;
}

}  // namespace

void Heads::add(const One& one) {
  all.push_back(one);
  if (one.put_at < newest_at || one.head.revision == Revision{}) return;
  newest = one.head.revision;
  newest_at = one.put_at;
}

bool Heads::has(OrderId order) const noexcept {
  return std::ranges::find(all, order, &One::order) != all.end();
}

Revision Heads::largest_in(const Scope& scope) const noexcept {
  Revision largest;
  for (const One& one : all) {
    bool counts = scope.all || std::ranges::find(scope.roots, one.order) != scope.roots.end();
    if (one.order == other_order) counts = scope.other;
    if (one.order == top_order) counts = scope.below_top();
    if (counts) largest = std::max(largest, one.head.revision);
  }
  return largest;
}

int head_reads(const Scope& scope) noexcept {
  return (scope.below_top() ? 1 : 0) + static_cast<int>(scope.roots.size()) + (scope.all ? 2 : 0) +
         (scope.other ? 1 : 0);
}

void add_head_reads(const Layout& layout, const Scope& scope, Ops& ops) {
  const auto add = [&](OrderId order) {
    ops.Add()->mutable_request_range()->set_key(layout.head(order));
  };
  if (scope.below_top()) add(top_order);
  for (const OrderId root : scope.roots) add(root);
  if (scope.all) {
    *ops.Add()->mutable_request_range() = first_by(layout, no_root, pb::RangeRequest::VALUE);
    *ops.Add()->mutable_request_range() = first_by(layout, no_root, pb::RangeRequest::MOD);
  }
  if (scope.other) add(other_order);
}

Heads parse_heads(const Layout& layout, const Scope& scope, const Results& results, int first) {
  Heads heads;
  for (int i = first; i < first + head_reads(scope); ++i) {
    for (const pb::KeyValue& kv : results.Get(i).response_range().kvs()) {
      const auto order = layout.order_at(kv.key());
      if (!order || heads.has(*order)) continue;
      heads.add({.order = *order, .head = parse_head(kv.value()), .put_at = kv.mod_revision()});
    }
  }
  return heads;
}

bool has_all(const Heads& heads, const Scope& scope) noexcept {
  return (!scope.below_top() || heads.has(top_order)) && (!scope.other || heads.has(other_order)) &&
         std::ranges::all_of(scope.roots, [&](OrderId root) { return heads.has(root); });
}

void compare_heads(pb::TxnRequest& request, const Layout& layout, const Scope& scope,
                   Revision revision) {
  const auto add = [&](OrderId order) {
    compare_value(request, pb::Compare::LESS, layout.head(order), stamp(revision));
  };
  for (const OrderId root : scope.roots) add(root);
  if (scope.below_top()) add(top_order);
  if (scope.other) add(other_order);
  if (!scope.all) return;
  add(no_root);
  request.mutable_compare(request.compare_size() - 1)->set_range_end(layout.heads_end());
}

pb::RangeRequest last_moved(const Layout& layout) {
  return first_by(layout, top_order, pb::RangeRequest::MOD);
}

}  // namespace tenure::etcd
