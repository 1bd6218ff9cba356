// The heads of a store: reading them, putting the first ones, and moving one past lost requests.
#include <algorithm>
#include <tuple>
#include <utility>

#include "store/etcd/executor.hpp"
#include "store/etcd/form.hpp"
#include "store/etcd/heads.hpp"
#include "store/etcd/numbers.hpp"

namespace tenure::etcd {

Executor::LastApply Executor::read_last_apply() {
  pb::RangeResponse response;
  const std::int64_t before = by_etcd_.load();
  client_.range(last_moved(layout_), response);
  LastApply last{.at = 0, .by_etcd = response.header().revision()};
  last.restored = see_restored(before, last.by_etcd);
  if (!response.kvs().empty()) last.at = response.kvs(0).mod_revision();
  return last;
}

Executor::KeysNow Executor::read_keys(std::span<const std::string> etcd_keys) {
  pb::TxnRequest request;
  for (const std::string& key : etcd_keys) {
    pb::RangeRequest& range = *request.add_success()->mutable_request_range();
    range.set_key(key);
    range.set_keys_only(true);
  }
  pb::TxnResponse response;
  const std::int64_t before = by_etcd_.load();
  client_.txn(request, response, false);
  KeysNow now{.by_etcd = response.header().revision(), .put_at = {}};
  now.restored = see_restored(before, now.by_etcd);
  for (const pb::ResponseOp& one : response.responses()) {
    const auto& kvs = one.response_range().kvs();
    now.put_at.push_back(kvs.empty() ? 0 : kvs.Get(0).mod_revision());
  }
  return now;
}

// NOLINTNEXTLINE(bugprone-easily-swappable-parameters): an order, and a revision of etcd's.
Head Executor::head_at(OrderId order, std::int64_t by_etcd) {
  pb::RangeRequest request;
  request.set_key(layout_.head(order));
  request.set_revision(by_etcd);
  pb::RangeResponse response;
  client_.range(request, response);
  return response.kvs().empty() ? Head{} : parse_head(response.kvs(0).value());
}

void Executor::see(std::int64_t by_etcd) noexcept {
  std::int64_t old = by_etcd_.load(std::memory_order_relaxed);
  while (old < by_etcd && !by_etcd_.compare_exchange_weak(old, by_etcd)) {
  }
}

bool Executor::see_restored(std::int64_t before, std::int64_t by_etcd) {
  see(by_etcd);
  if (by_etcd >= before) return false;
  caches_.revisions.clear();
  by_etcd_ = by_etcd;
  return true;
}

void Executor::make_heads(const Scope& scope) {
  const std::uint64_t slot = orders_.propose(scope, clock_.slot());
  pb::TxnResponse response;
  // Not a change for the client: a second attempt does no harm.
  client_.txn(MakeHeadsForm::build(layout_, scope, slot, clock_.now()), response, false);
  MakeHeadsForm::parse(response);
}

std::int64_t Executor::pass(const Mark& mark) {
  Scope scope;
  if (mark.order == top_order) {
    scope.top = true;
  } else if (mark.order == other_order) {
    scope.other = true;
  } else {
    scope.roots.push_back(mark.order);
  }
  orders_.forget(scope);
  for (;;) {
    const std::uint64_t slot =
        std::max(orders_.propose(scope, clock_.slot()), (mark.last / apart) + 1);
    const Head beyond{.revision = Revision{(slot * apart) + mark.order},
                      .time = clock_.unique_time()};
    pb::TxnResponse response;
    // Not a change for the client: a second attempt does no harm.
    client_.txn(PassHeadForm::build(layout_.head(mark.order), beyond), response, false);
    if (response.succeeded()) orders_.see(mark.order, beyond.revision);
    if (const auto put_at = PassHeadForm::parse(response)) return *put_at;
    make_heads(scope);
  }
}

void Executor::leave_unresolved(const Mark& mark) {
  const base::Mutex::Scoped lock{mutex_};
  any_unresolved_ = true;
  const auto at = std::ranges::find(unresolved_, mark.order, &Mark::order);
  if (at == unresolved_.end()) {
    unresolved_.push_back(mark);
  } else {
    at->last = std::max(at->last, mark.last);
  }
}

void Executor::pass_unresolved() {
  while (any_unresolved_) {
    Mark mark;
    {
      const base::Mutex::Scoped lock{mutex_};
      if (unresolved_.empty()) return;
      mark = unresolved_.back();
    }
    std::ignore = pass(mark);
    const base::Mutex::Scoped lock{mutex_};
    std::erase_if(unresolved_, [&](const Mark& one) {
      return one.order == mark.order && one.last <= mark.last;
    });
    any_unresolved_ = !unresolved_.empty();
  }
}

Executor::Life Executor::read_lease_key(std::string_view id) {
  pb::RangeRequest request;
  request.set_key(layout_.lease_key(id));
  request.set_keys_only(true);
  pb::RangeResponse response;
  client_.range(request, response);
  return {.alive = !response.kvs().empty(), .at = response.header().revision()};
}

}  // namespace tenure::etcd
