#include "store/etcd/plan.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "store/etcd/numbers.hpp"
#include "store/etcd/requests.hpp"

namespace tenure::etcd {
namespace {

// How many bytes all proposals of one request may write together, and what each write adds.
constexpr std::size_t max_bytes = 32'768;
constexpr std::size_t bytes_a_write = 96;
constexpr std::size_t max_operations = 128;  // etcd's default; a server may allow more.

// No key can be in it.
bool is_void(const Range& range) noexcept { return !range.to.empty() && range.to <= range.from; }

// It always holds.
bool is_void(const Guard& guard) noexcept {
  return guard.kind == Guard::Kind::quiet && (is_void(guard.range) || guard.revision == this_apply);
}

}  // namespace

Plan::Plan(const Layout& layout, const Caches& caches, const Txn& txn, const LeaseKey* lease_key,
           const Batch* batch)
    : layout_(layout),
      txn_(txn),
      lease_key_(lease_key),
      batch_(batch),
      quiet_at_(txn.guards.size()) {
  add_steps(caches.keys);
  scope_ = writes() ? written_by(txn) : touched_by(txn);
  shown_ = scope_;
  moved_ = scope_.moved();
  for (std::size_t i = 0; i < txn.guards.size(); ++i) {
    const Guard& guard = txn.guards[i];
    if (guard.kind != Guard::Kind::quiet || guard.revision == Revision{} || is_void(guard)) {
      continue;
    }
    quiet_at_[i] = caches.revisions.by_etcd(guard.revision);
    if (quiet_at_[i]) continue;
    open_.push_back(i);
    shown_.add(scope_of(guard.range));
  }
  for (const Range& range : txn.reads) {
    const bool last = range.reverse && range.limit == 1 && range.skip == 0 && !is_void(range);
    hints_.push_back(last ? caches.keys.last_in(range) : std::string{});
  }
}

// etcd accepts a key once per transaction, so the last of several writes to a key counts.
void Plan::add_steps(const KeyCache& keys) {
  for (std::size_t i = 0; i < txn_.writes.size(); ++i) {
    const Write& write = txn_.writes[i];
    const std::size_t txn = batch_ == nullptr ? 0 : batch_->txn_of_write[i];
    bytes_ += write.key.size() + write.value.size();
    if (write.kind == Write::Kind::append) {
      Step& step = appends_[{write.key, txn}];
      step.txn = txn;
      step.kind = Step::Kind::append;
      step.value = &write.value;
      continue;
    }
    const auto [at, first] = steps_.try_emplace(write.key);
    Step& step = at->second;
    if (first) step.seen = keys.find(write.key);
    step.txn = txn;
    step.removed_before = step.removed_before || (!first && step.kind == Step::Kind::remove);
    step.kind = write.kind == Write::Kind::put ? Step::Kind::put : Step::Kind::remove;
    step.value = &write.value;
  }
  for (const auto& [key, step] : steps_) {
    changes_ = changes_ || step.kind == Step::Kind::put;
    assumed_ += step.assumes() ? 1 : 0;
  }
}

Needs Plan::needs() const {
  return {.writes = writes(),
          .only_appends = lease_key_ == nullptr && !changes_,
          .transactions = batch_ == nullptr ? 1 : batch_->count,
          .max_heads = max_heads(),
          .scope = scope_};
}

// etcd counts the operations along a path of nested transactions. A large request is not sent many
// times over.
std::size_t Plan::max_heads() const {
  if (!writes()) return 0;
  if (batch_ != nullptr || !scope_.single()) return 1;
  const std::size_t writes = steps_.size() + appends_.size() + 2;
  const std::size_t outer = std::max(txn_.guards.size() + 1, txn_.reads.size() + 2);
  constexpr std::size_t depth = 8;
  if (outer + depth + 1 + writes + static_cast<std::size_t>(assumed_) > max_operations) return 1;
  return std::clamp<std::size_t>(max_bytes / (bytes_ + writes * bytes_a_write), 1,
                                 Contention::max_reach);
}

void Plan::answer(std::int64_t by_etcd, const Heads& heads) {
  asked_at_ = heads.newest;
  for (const std::size_t i : open_) {
    quiet_at_[i] = by_etcd;
    // Later revisions of an order are larger than its newest one. Whether they are larger than the
    // guard's is open if the guard's is ahead of the newest one.
    const Scope scope = scope_of(txn_.guards[i].range);
    certain_ = certain_ && txn_.guards[i].revision <= heads.largest_in(scope);
  }
}

void Plan::add_questions(Ops& ops) const {
  for (const std::size_t i : open_) {
    const Range& range = txn_.guards[i].range;
    pb::RangeRequest* const newest = ops.Add()->mutable_request_range();
    newest->set_key(layout_.key(range.from));
    newest->set_range_end(layout_.range_end(range));
    newest->set_sort_target(pb::RangeRequest::VALUE);
    newest->set_sort_order(pb::RangeRequest::DESCEND);
    newest->set_limit(1);
  }
}

void Plan::add_guards(pb::TxnRequest& request) const {
  using Compare = pb::Compare;
  for (std::size_t i = 0; i < txn_.guards.size(); ++i) {
    const Guard& guard = txn_.guards[i];
    std::string key = layout_.key(guard.range.from);
    switch (guard.kind) {
      case Guard::Kind::absent: compare_created(request, Compare::EQUAL, std::move(key)); break;
      case Guard::Kind::present: compare_created(request, Compare::GREATER, std::move(key)); break;
      case Guard::Kind::unchanged:
        // A value begins with the stamp of `changed`, and is longer than it.
        compare_value(request, Compare::GREATER, key, stamp(guard.revision));
        if (guard.revision.value != std::numeric_limits<std::uint64_t>::max()) {
          compare_value(request, Compare::LESS, std::move(key),
                        stamp(Revision{guard.revision.value + 1}));
        }
        break;
      case Guard::Kind::quiet: {
        if (is_void(guard)) break;
        std::string end = layout_.range_end(guard.range);
        const std::optional<std::int64_t> quiet_at = quiet_at_[i];
        if (!quiet_at) {
          compare_created(request, Compare::EQUAL, std::move(key), std::move(end));
          break;
        }
        Compare* const compare = add_compare(request, Compare::MOD, Compare::LESS, std::move(key));
        compare->set_mod_revision(*quiet_at + 1);
        compare->set_range_end(std::move(end));
        break;
      }
    }
  }
}

bool Plan::reads_anything(std::size_t read) const noexcept { return !is_void(txn_.reads[read]); }

pb::RangeRequest Plan::range_request(std::size_t read) const {
  const Range& range = txn_.reads[read];
  pb::RangeRequest request;
  request.set_key(layout_.key(range.from));
  request.set_range_end(layout_.range_end(range));
  if (range.limit != 0) {
    // If the range has a `before`, the keys that this apply itself appends do not count.
    const std::size_t extra = range.before == Revision{} ? 0 : appends_.size();
    request.set_limit(std::int64_t{range.skip} + range.limit + static_cast<std::int64_t>(extra));
  }
  if (range.reverse) request.set_sort_order(pb::RangeRequest::DESCEND);
  return request;
}

void Plan::add_reads(Ops& ops, const SoleWriter::Use* own) const {
  for (std::size_t i = 0; i < txn_.reads.size(); ++i) {
    if (!reads_anything(i) || (own != nullptr && own->empty[i])) continue;
    pb::RangeRequest& request = *ops.Add()->mutable_request_range();
    request = range_request(i);
    if (!hints_[i].empty()) request.set_key(layout_.key(hints_[i]));
  }
}

void Plan::add_removals(Ops& ops) const {
  for (const auto& [key, step] : steps_) {
    if (step.kind != Step::Kind::remove) continue;
    ops.Add()->mutable_request_delete_range()->set_key(layout_.key(key));
  }
  if (lease_key_ == nullptr || lease_key_->lease != 0) return;
  ops.Add()->mutable_request_delete_range()->set_key(layout_.lease_key(lease_key_->id));
}

Revision Plan::revision_of(std::size_t txn, Revision last) const noexcept {
  const std::size_t behind = batch_ == nullptr ? 0 : batch_->count - 1 - txn;
  return Revision{last.value - (behind * apart)};
}

void Plan::add_writes(Ops& ops, std::uint64_t head, Instant time) const {
  add_removals(ops);
  for (const auto& [key, step] : steps_) {
    if (step.kind != Step::Kind::put) continue;
    const Revision own = revision_of(step.txn, Revision{head});
    add_put(ops, layout_.key(key),
            entry_value({.changed = own,
                         .created = step.creates() ? own : step.seen.created,
                         .bytes = *step.value}));
  }
  for (const auto& [prefix, step] : appends_) {
    const Revision own = revision_of(step.txn, Revision{head});
    add_put(ops, layout_.key(prefix.first + stamp(own)),
            entry_value({.changed = own, .created = own, .bytes = *step.value}));
  }
  if (lease_key_ != nullptr && lease_key_->lease != 0) {
    add_put(ops, layout_.lease_key(lease_key_->id), {}).set_lease(lease_key_->lease);
  }
  const std::string value = head_value({.revision = Revision{head}, .time = time});
  for (const OrderId order : moved_) add_put(ops, layout_.head(order), value);
  // Appends know which head they replace; other transactions have to be told. Below the top that
  // says nothing: what is on / may have changed without it.
  if (needs_replaced()) ops.Mutable(ops.size() - 1)->mutable_request_put()->set_prev_kv(true);
}

bool Plan::needs_replaced() const {
  return scope_.single() && scope_.other && (changes_ || lease_key_ != nullptr);
}

int Plan::operations() const noexcept {
  return static_cast<int>(steps_.size() + appends_.size() + moved_.size()) +
         (lease_key_ != nullptr ? 1 : 0);
}

void Plan::add_assumptions(pb::TxnRequest& request) const {
  for (const auto& [key, step] : steps_) {
    if (!step.assumes()) continue;
    add_compare(request, pb::Compare::MOD, pb::Compare::EQUAL, layout_.key(key))
        ->set_mod_revision(step.seen.mod_revision);
  }
}

void Plan::add_assumed_keys(Ops& ops) const {
  for (const auto& [key, step] : steps_) {
    if (step.assumes()) ops.Add()->mutable_request_range()->set_key(layout_.key(key));
  }
}

std::vector<Plan::AssumedKey> Plan::assumed_keys() const {
  std::vector<AssumedKey> assumed;
  for (const auto& [key, step] : steps_) {
    if (step.assumes()) assumed.push_back({.key = key, .state = step.seen});
  }
  return assumed;
}

std::vector<stores::Change> Plan::changes(Revision revision) const {
  std::vector<stores::Change> changes;
  changes.reserve(steps_.size() + appends_.size());
  for (const auto& [key, step] : steps_) {
    changes.push_back({.key = key, .removed = step.kind == Step::Kind::remove});
  }
  for (const auto& [prefix, step] : appends_) {
    changes.push_back({.key = prefix.first + stamp(revision_of(step.txn, revision))});
  }
  return changes;
}

void Plan::remember(Revision revision, std::int64_t by_etcd, KeyCache& keys) const {
  for (const auto& [key, step] : steps_) {
    if (step.kind == Step::Kind::remove) {
      keys.erase(key);
      continue;
    }
    const Revision created = step.creates() ? revision_of(step.txn, revision) : step.seen.created;
    keys.put(key, {.mod_revision = by_etcd, .created = created});
  }
}

}  // namespace tenure::etcd
