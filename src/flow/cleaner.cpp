// What is removed when nobody needs it any more: logs of earlier runs, and workflows that ended
// longer ago than EngineOptions::retention.
//
// A timer says what and when. The transaction that makes something superfluous puts the timer; the
// last transaction of the removal takes it away. So a removal that was interrupted begins again.
#include "flow/children.hpp"
#include "flow/core.hpp"
#include "tenure/detail/saturating.hpp"
#include "tenure/path.hpp"

namespace tenure::flow {
namespace {

constexpr std::uint32_t removed_at_once = 500;  // Keys of one transaction, about.

// Nothing: no slot can have such an address.
std::optional<Range> slots_of_execution(const std::string& id) {
  try {
    std::string key{reserved::flow_slots};
    key += Path::of("execution", id).bytes();
    return Range::prefix(std::move(key));
  } catch (const BadRequest&) {
    return std::nullopt;
  }
}

}  // namespace

void Core::clean(const keys::Timer& timer) {
  const ReignRef reign = partitions_->owner(timer.partition);
  if (!reign || stopping()) return;
  try {
    const bool done = timer.key == keys::retention_timer ? remove_ended(timer, *reign)
                                                         : remove_log(timer, *reign);
    if (!done) post([this, timer] { clean(timer); });
  } catch (const StoreError&) {
    post_at(detail::saturating_add(store_->latest_now(), std::chrono::milliseconds{100}),
            [this, timer] { clean(timer); });
  } catch (const Error& error) {  // Its record cannot be read.
    report(timer.id, error.what());
  }
}

bool Core::add_removals(const std::vector<Range>& ranges, Txn& txn) {
  Txn look;
  for (const Range& range : ranges) look.reads.push_back(range.first(removed_at_once));
  std::size_t found = 0;
  for (const std::vector<Entry>& entries : store_->apply(look).reads) {
    for (const Entry& entry : entries) {
      if (++found > removed_at_once) return false;
      txn.writes.push_back(Write::remove(entry.key));
    }
  }
  return found < removed_at_once;
}

// Each returns true when nothing is left to do. A refused transaction: another engine has the
// partition, and does it.
bool Core::remove_log(const keys::Timer& timer, const Reign& reign) {
  Txn txn;
  txn.guards = reign.guards;
  const bool last = add_removals(
      {Range::prefix(keys::log_prefix(timer.partition, timer.id, timer.key.sequence))}, txn);
  if (last) txn.writes.push_back(Write::remove(keys::timer(timer)));
  return !store_->apply(txn).committed || last;
}

bool Core::remove_ended(const keys::Timer& timer, const Reign& reign) {
  Txn txn;
  txn.guards = reign.guards;
  const std::optional<Entry> found = read(keys::record(timer.partition, timer.id));
  std::optional<Record> record;
  if (found) record = parsed_record(*found);
  if (!record || !is_terminal(record->state)) {  // Not what the timer was for.
    txn.writes.push_back(Write::remove(keys::timer(timer)));
    store_->apply(txn);
    return true;
  }
  if (parent_runs(*record)) {  // It may start the child again after a crash, and must find it.
    keys::Timer later = timer;
    later.due = detail::saturating_add(store_->now(), options_.retention);
    txn.writes.push_back(Write::remove(keys::timer(timer)));
    txn.writes.push_back(Write::put(keys::timer(later), ""));
    if (store_->apply(txn).committed) add_timer(keys::timer(later));
    return true;
  }
  std::vector<Range> ranges{Range::prefix(keys::log_prefix(timer.partition, timer.id, record->run)),
                            Range::prefix(keys::message(timer.partition, timer.id, ""))};
  if (std::optional<Range> slots = slots_of_execution(timer.id); slots && record->root.empty()) {
    ranges.push_back(*std::move(slots));
  }
  const bool last = add_removals(ranges, txn);
  if (last) {
    txn.writes.push_back(Write::remove(keys::record(timer.partition, timer.id)));
    txn.writes.push_back(Write::remove(keys::timer(timer)));
    if (!record->idempotency_key.empty()) {
      txn.writes.push_back(Write::remove(keys::idempotency(record->idempotency_key)));
    }
  }
  return !store_->apply(txn).committed || last;
}

bool Core::parent_runs(const Record& record) {
  const std::optional<ParentLink> parent = parse_parent(record.parent);
  if (!parent) return false;
  const std::optional<Entry> found = read(keys::record(partition_of(parent->id), parent->id));
  return found && !is_terminal(parsed_record(*found).state);
}

}  // namespace tenure::flow
