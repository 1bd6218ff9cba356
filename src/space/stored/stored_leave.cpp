// How tickets of this process leave: released, dropped, cancelled, narrowed, or with the space.
#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "space/stored/stored_space.hpp"
#include "tenure/detail/saturating.hpp"
#include "tenure/error.hpp"
#include "tenure/rule.hpp"

namespace tenure::stored {
namespace {

using namespace std::chrono_literals;
constexpr auto retry_time = 100ms;
// Some stores take only so many writes in one step. A ticket's own are never parted.
constexpr std::size_t max_removals = 64;

}  // namespace

Txn StoredSpace::removal(const Record& record) {
  Txn txn;
  txn.guards.push_back(Guard::present(record.first_key()));
  for (const Claim& claim : record.row.claims) {
    txn.writes.push_back(Write::remove(row_key(claim, record.number)));
  }
  return txn;
}

// The record is nobody's after this; its watches end first, so that no notice looks at it again.
StoredSpace::RecordRef StoredSpace::take_back(const detail::Grant& grant) noexcept {
  RecordRef record = std::move(static_cast<Record*>(grant.ticket)->held);
  Watches watches;
  {
    const base::Mutex::Scoped lock{mutex_};
    ++record->round;
    watches.swap(record->watches);
  }
  return record;
}

bool StoredSpace::release(const detail::Grant& grant) {
  if (forked()) return false;
  const RecordRef record = take_back(grant);
  const Stay stay{*this};
  leave();
  const Txn txn = removal(*record);
  try {
    return store_->apply(txn).committed;
  } catch (...) {
    retry_later(txn);
    throw;
  }
}

void StoredSpace::drop(const detail::Grant& grant) noexcept {
  release_then(grant, [](const std::exception_ptr& /*error*/, bool /*held*/) {});
}

void StoredSpace::release_then(const detail::Grant& grant, Released done) noexcept {
  if (forked()) {
    done(nullptr, false);
    return;
  }
  const RecordRef record = take_back(grant);
  const Txn txn = removal(*record);
  store_->post(txn, [this, txn, done = std::move(done)](const Outcome& outcome,
                                                        const std::exception_ptr& error) {
    const InStore in_store;
    if (error != nullptr) retry_later(txn);
    done(error, outcome.committed);
    leave();
  });
}

void StoredSpace::withdraw(detail::Waiter& waiter) noexcept {
  if (forked()) return;
  RecordRef record;
  Watches watches;
  {
    const base::Mutex::Scoped lock{mutex_};
    const auto found = waiting_.find(waiter.grant.token.value);
    if (found == waiting_.end()) return;
    record = std::move(found->second);
    waiting_.erase(found);
    ++record->round;
    watches.swap(record->watches);
  }
  watches.clear();
  give_up(record);
}

void StoredSpace::retry_later(Txn txn) noexcept {
  {
    const base::Mutex::Scoped lock{mutex_};
    retries_.push_back(std::move(txn));
  }
  start_retrying();
}

void StoredSpace::start_retrying() noexcept {
  {
    const base::Mutex::Scoped lock{mutex_};
    if (std::exchange(retrying_, true)) return;  // Somebody retries already.
  }
  enter();
  arm_retry();
}

void StoredSpace::arm_retry() noexcept {
  std::unique_ptr<Watch> watch;
  try {
    WatchFor soon;
    soon.until = detail::saturating_add(store_->now(), retry_time);
    watch = store_->watch(std::move(soon), [this] { retry(); });
  } catch (...) {
    leave();  // No thread, no memory: what is left goes with the session.
    return;
  }
  const base::Mutex::Scoped lock{mutex_};
  retry_watch_.swap(watch);
}

bool StoredSpace::retry_one() {
  std::optional<Row> stray;
  std::optional<Txn> txn;
  {
    const base::Mutex::Scoped lock{mutex_};
    if (!strays_.empty()) {
      stray = strays_.front();
    } else if (!retries_.empty()) {
      txn = retries_.front();
    } else {
      retrying_ = false;
      return false;
    }
  }
  if (stray.has_value()) {
    remove_stray(*stray);
    const base::Mutex::Scoped lock{mutex_};
    strays_.erase(strays_.begin());
    return true;
  }
  store_->apply(*txn);
  const base::Mutex::Scoped lock{mutex_};
  retries_.erase(retries_.begin());
  return true;
}

void StoredSpace::retry() noexcept {
  const InStore in_store;
  try {
    while (retry_one()) {
    }
  } catch (...) {
    // What a lost session left is for others to remove, or for nobody.
    if (!session_->lost().stop_requested()) {
      arm_retry();
      return;
    }
    const base::Mutex::Scoped lock{mutex_};
    retries_.clear();
    strays_.clear();
    retrying_ = false;
  }
  leave();
}

// Between the commit that moves a ticket's entry and the record that knows of it, who looks for the
// entry at its old key must not take the hold for lost.
class StoredSpace::Moving {
 public:
  Moving(StoredSpace& space, Record& record) : space_(space), record_(record) { set(true); }
  Moving(const Moving&) = delete;
  Moving& operator=(const Moving&) = delete;
  ~Moving() { set(false); }

 private:
  void set(bool moving) {
    const base::Mutex::Scoped lock{space_.mutex_};
    record_.moving = moving;
  }
  StoredSpace& space_;
  Record& record_;
};

void StoredSpace::downgrade(detail::Grant& grant, std::span<const Claim> claims) {
  check_open_for_hold();
  const RecordRef record = static_cast<Record*>(grant.ticket)->held;
  if (const auto fault = find_downgrade_fault(record->row.claims, claims)) throw BadRequest(*fault);
  const Moving moving{*this, *record};
  for (;;) {
    Txn txn;
    if (!agree_on_limits(record->row.owner, claims, record->number, txn)) continue;
    const std::string old_key = record->first_key();
    Txn read;
    read.reads.push_back(Range::key(old_key));
    const Outcome own = store_->apply(read);
    if (own.reads.front().empty()) {
      throw Evicted("cannot downgrade: the hold was lost");
    }
    const Entry& entry = own.reads.front().front();
    Row row = parse_row(entry).row.value_or(record->row);
    row.claims.assign(claims.begin(), claims.end());
    row.number = record->number;
    txn.guards.push_back(Guard::unchanged(old_key, entry.changed));
    for (const Claim& claim : record->row.claims) {
      txn.writes.push_back(Write::remove(row_key(claim, record->number)));
    }
    for (const Claim& claim : row.claims) {
      const bool first = &claim == row.claims.data();
      txn.writes.push_back(
          Write::put(row_key(claim, record->number),
                     first ? row.text()
                           : Pointer{.session = row.session, .first = row.claims.front()}.text()));
    }
    if (store_->apply(txn).committed) {
      const base::Mutex::Scoped lock{mutex_};
      record->row = row;
      return;
    }
    explain_refusal(record->row.owner, claims, record->number);
  }
}

void StoredSpace::close() noexcept {
  if (forked() || closed_.exchange(true, std::memory_order_acq_rel)) return;
  std::vector<RecordRef> ended;
  std::vector<Watches> watches;
  {
    const base::Mutex::Scoped lock{mutex_};
    std::erase_if(waiting_, [&](const auto& item) {
      const RecordRef& record = item.second;
      if (!record->waiter->decide()) return false;  // It is being cancelled.
      ++record->round;
      watches.push_back(std::exchange(record->watches, {}));
      ended.push_back(record);
      return true;
    });
  }
  watches.clear();
  remove_all(ended);
  for (const RecordRef& record : ended) {
    // Not the last: the Space itself leaves after this.
    // NOLINTNEXTLINE(clang-analyzer-cplusplus.NewDelete)
    tell(*record->waiter, detail::WaitOutcome::closed);
    leave();
  }
}

// The earliest first: who waits behind them waits for the last, and is woken once. After one step
// that fails the others are not tried now: each might wait for a server that is gone.
void StoredSpace::remove_all(std::span<const RecordRef> records) noexcept {
  std::vector<RecordRef> sorted{records.begin(), records.end()};
  std::ranges::sort(sorted, {}, [](const RecordRef& record) { return record->number; });
  bool works = true;
  const auto remove = [&](Txn txn) noexcept {
    try {
      if (works) store_->apply(txn);
    } catch (...) {
      works = false;
    }
    if (!works) retry_later(std::move(txn));
  };
  Txn step;
  for (const RecordRef& record : sorted) {
    const std::size_t more = record->row.claims.size();
    if (!step.writes.empty() && step.writes.size() + more > max_removals) {
      remove(std::exchange(step, {}));
    }
    for (const Claim& claim : record->row.claims) {
      step.writes.push_back(Write::remove(row_key(claim, record->number)));
    }
  }
  if (!step.writes.empty()) remove(std::move(step));
}

thread_local int StoredSpace::InStore::depth = 0;

// A thread that is in the store's hands can't end the store: that would wait for itself.
void StoredSpace::leave() noexcept {
  if (users_.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  if (forked()) return;
  if (!InStore::here()) {
    delete this;
    return;
  }
  try {
    std::thread{[this] { delete this; }}.detach();
  } catch (...) {  // NOLINT(bugprone-empty-catch)
    // No thread to be had: what is left goes with the process.
  }
}

}  // namespace tenure::stored
