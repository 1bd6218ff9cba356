#include "store/etcd/scope.hpp"

#include <algorithm>
#include <cstdint>
#include <string>

#include "store/common/orders.hpp"

namespace tenure::etcd {
namespace {

constexpr unsigned char last_of_tickets = 2;  // The first byte of keys of tickets, at most.

// From here on a transaction has no room for several heads: etcd takes 128 comparisons, and as many
// operations.
constexpr std::size_t large = 100;

const Scope everything{.all = true, .top = false, .other = true, .roots = {}};

// FNV-1a.
OrderId order_of_root(std::string_view root) {
  std::uint64_t hash = 0xcbf29ce484222325U;
  for (const char byte : root) {
    hash = (hash ^ static_cast<unsigned char>(byte)) * 0x100000001b3U;
  }
  return static_cast<OrderId>(first_root + (hash % root_orders));
}

Scope scope_of_name(std::string_view name) {
  Scope scope;
  if (name == stores::all_orders) {
    scope.all = true;
  } else {
    scope.roots.push_back(order_of_root(name));
  }
  return scope;
}

bool is_ticket(std::string_view key) {
  return key.empty() || static_cast<unsigned char>(key.front()) <= last_of_tickets;
}

// Ordered with the tickets that they are written with.
bool follows_tickets(std::string_view key) {
  return key.starts_with(reserved::request_ids) || key.starts_with(reserved::owner_tickets);
}

// Only tickets on /. They are later than all that was below, so no root's head says more of them.
bool is_on_top(const Range& range) {
  for (const std::string_view region :
       {reserved::exclusive_claims, reserved::shared_claims, reserved::group_claims}) {
    if (!range.from.starts_with(region)) continue;
    const std::string here{region};
    return range.from.starts_with(here + '\0') && !range.to.empty() && range.to <= here + '\1';
  }
  return false;
}

bool meets(const Range& range, std::string_view prefix) {
  return range.from < prefix_end(std::string{prefix}) && (range.to.empty() || range.to > prefix);
}

}  // namespace

std::vector<OrderId> Scope::moved() const {
  std::vector<OrderId> orders = roots;
  if (all || top) orders.push_back(top_order);
  if (other) orders.push_back(other_order);
  return orders;
}

void Scope::add(const Scope& scope) {
  all = all || scope.all;
  top = top || scope.top;
  other = other || scope.other;
  for (const OrderId root : scope.roots) {
    const auto at = std::ranges::lower_bound(roots, root);
    if (at == roots.end() || *at != root) roots.insert(at, root);
  }
  all = all || roots.size() > max_roots;
  if (!all) return;
  roots.clear();
  top = false;
}

Scope scope_of(const Range& range) {
  Scope scope;
  if (!is_ticket(range.from)) {
    if (meets(range, reserved::request_ids) || meets(range, reserved::owner_tickets)) {
      return everything;
    }
    scope.other = true;
    return scope;
  }
  const auto name = stores::order_of(range);
  if (!name) return everything;
  if (is_on_top(range)) {
    scope.top = true;
    return scope;
  }
  return scope_of_name(*name);
}

Scope written_by(const Txn& txn) {
  Scope scope;
  for (const Write& write : txn.writes) {
    if (is_ticket(write.key)) {
      scope.add(scope_of_name(stores::order_of_key(write.key)));
    } else if (!follows_tickets(write.key)) {
      scope.other = true;
    }
  }
  if (scope.is_empty()) scope.other = true;
  const std::size_t operations = txn.guards.size() + txn.writes.size() + txn.reads.size();
  if (scope.roots.size() > 1 && operations > large) scope.add({.all = true});
  return scope;
}

// A session's entry is guarded in nearly every transaction, and watched by nobody.
Scope touched_by(const Txn& txn) {
  Scope scope;
  for (const Range& range : txn.reads) scope.add(scope_of(range));
  for (const Guard& guard : txn.guards) {
    const bool session = guard.range.from.starts_with(session_prefix);
    if (!session || txn.reads.empty()) scope.add(scope_of(guard.range));
  }
  return scope.is_empty() ? everything : scope;
}

bool is_in(OrderId order, const Range& range) {
  const Scope scope = scope_of(range);
  if (scope.all) return false;
  if (order == other_order) return scope.other && !scope.below_top();
  return !scope.other &&
         std::ranges::all_of(scope.roots, [order](OrderId root) { return root == order; });
}

}  // namespace tenure::etcd
