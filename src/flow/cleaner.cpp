// What is removed when nobody needs it any more: the logs of earlier runs.
//
// A timer says what and when. The transaction that makes something superfluous puts the timer; the
// last transaction of the removal takes it away. So a removal that was interrupted begins again.
#include "flow/core.hpp"
#include "tenure/detail/saturating.hpp"

namespace tenure::flow {
namespace {

constexpr std::uint32_t removed_at_once = 500;  // Keys of one transaction.

}  // namespace

void Core::clean(const keys::Timer& timer) {
  const ReignRef reign = partitions_->owner(timer.partition);
  if (!reign || stopping()) return;
  try {
    if (!clean_some(timer, *reign)) post([this, timer] { clean(timer); });
  } catch (const StoreError&) {
    post_at(detail::saturating_add(store_->latest_now(), std::chrono::milliseconds{100}),
            [this, timer] { clean(timer); });
  }
}

// True: nothing is left to do.
bool Core::clean_some(const keys::Timer& timer, const Reign& reign) {
  Txn look;
  look.reads.push_back(
      Range::prefix(keys::log_prefix(timer.partition, timer.id, timer.key.sequence))
          .first(removed_at_once));
  const std::vector<Entry> found = std::move(store_->apply(look).reads.front());
  Txn txn;
  txn.guards = reign.guards;
  for (const Entry& entry : found) txn.writes.push_back(Write::remove(entry.key));
  const bool last = found.size() < removed_at_once;
  if (last) txn.writes.push_back(Write::remove(keys::timer(timer)));
  return !store_->apply(txn).committed || last;  // Refused: another engine has the partition.
}

}  // namespace tenure::flow
