// How tickets of this process leave: released, dropped, cancelled, or with the space.
#include <algorithm>
#include <chrono>
#include <iterator>
#include <thread>
#include <typeinfo>
#include <utility>

#include "space/stored/endings.hpp"
#include "space/stored/stored_space.hpp"
#include "tenure/detail/saturating.hpp"
#include "tenure/error.hpp"

namespace tenure::stored {
namespace {

using namespace std::chrono_literals;
constexpr auto retry_time = 100ms;
// Some stores take only so many writes in one step. A ticket's own are never parted.
constexpr std::size_t max_removals = 64;

}  // namespace

// Of a ticket that was downgraded perhaps: whichever entries there are.
Txn StoredSpace::removal(const Record& record) {
  Txn txn;
  Tickets::add_removal(record.row, record.number, txn);
  if (record.perhaps.has_value()) {
    for (const Claim& claim : record.perhaps->claims) {
      txn.writes.push_back(Write::remove(row_key(claim, record.number)));
    }
  } else {
    txn.guards.push_back(Tickets::held(record.row, record.number));
  }
  return txn;
}

Txn StoredSpace::removal_as_seen(const Record& record) {
  Txn txn = removal(record);
  if (record.perhaps.has_value()) return txn;
  const base::Mutex::Scoped lock{mutex_};
  txn.guards = {Guard::unchanged(record.first_key(), record.seen_at)};
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
    --holds_;
    changed_.notify_all();
  }
  timers_->cancel(record->number.value);
  return record;
}

class StoredSpace::Departure {
 public:
  explicit Departure(StoredSpace& space) noexcept
      : space_(space.closed_.load(std::memory_order_acquire) && !space.forked() ? &space
                                                                                : nullptr) {
    if (space_ != nullptr) space_->owners_.fetch_add(1, std::memory_order_relaxed);
  }
  Departure(const Departure&) = delete;
  Departure& operator=(const Departure&) = delete;
  ~Departure() {
    if (space_ == nullptr) return;
    space_->await_end();
    space_->disown();
  }

 private:
  StoredSpace* const space_;
};

bool StoredSpace::release(const detail::Grant& grant) {
  if (forked()) return false;
  const Departure departure{*this};
  const RecordRef record = take_back(grant);
  const Stay stay{*this};
  leave();
  try {
    resolve_downgrade(record);
    return remove_held(record);
  } catch (...) {
    retry_later(removal(*record), record->row.anchored());
    throw;
  }
}

// Where somebody else has written the row since it was last seen here, it is read first: it may say
// that the hold was evicted.
bool StoredSpace::remove_held(const RecordRef& record) {
  const bool over = is_over_or_evicted(*record);
  if (store_->apply(removal_as_seen(*record)).committed) return !over;
  const Outcome own = store_->apply(own_row(*record));
  if (!saw_rows(record, own)) return false;
  const bool over_now = is_over_or_evicted(*record);
  return store_->apply(removal(*record)).committed && !over_now;
}

Txn StoredSpace::own_row(const Record& record) {
  Txn read;
  read.reads.push_back(Range::key(record.first_key()));
  return read;
}

// What own_row() read. False: there is none.
bool StoredSpace::saw_rows(const RecordRef& record, const Outcome& own) {
  if (own.reads.front().empty()) return false;
  const Entry& entry = own.reads.front().front();
  const auto parsed = read_row(entry);
  if (!parsed.has_value()) return true;
  if (const auto& row = parsed->row; row.has_value()) saw_row(record, *row, entry.changed);
  return true;
}

void StoredSpace::drop(const detail::Grant& grant) noexcept {
  const Departure departure{*this};
  if (!forked()) post_removal(*take_back(grant));
}

void StoredSpace::release_then(const detail::Grant& grant, Released done) noexcept {
  if (forked()) {
    done(nullptr, false);
    return;
  }
  const RecordRef record = take_back(grant);
  const bool over = is_over_or_evicted(*record);
  post(removal_as_seen(*record), [this, record, over, done = std::move(done)](
                                     const Outcome& outcome, const std::exception_ptr& error) {
    if (error != nullptr || outcome.committed) {
      if (error != nullptr) retry_later(removal(*record), record->row.anchored());
      done(error, outcome.committed && !over);
    } else {
      remove_changed(record, done);
    }
  });
}

// The rest of remove_held(), by posts.
void StoredSpace::remove_changed(const RecordRef& record, const Released& done) noexcept {
  enter();
  post(own_row(*record), [this, record, done](const Outcome& own, const std::exception_ptr& error) {
    if (error != nullptr) retry_later(removal(*record), record->row.anchored());
    if (error != nullptr || !saw_rows(record, own)) {
      done(error, false);
      return;
    }
    enter();
    const bool over = is_over_or_evicted(*record);
    post(removal(*record),
         [this, record, over, done](const Outcome& outcome, const std::exception_ptr& failed) {
           if (failed != nullptr) retry_later(removal(*record), record->row.anchored());
           done(failed, outcome.committed && !over);
         });
  });
}

// The ticket stays where it is.
void StoredSpace::detach(const detail::Grant& grant) {
  if (forked()) return;
  if (!static_cast<Record*>(grant.ticket)->row.anchored()) {
    throw BadRequest(
        "detach() called on a hold of this process's session, which cannot outlive "
        "the process: lock with space.anchored(key)");
  }
  const Departure departure{*this};
  static_cast<void>(take_back(grant));
  leave();
}

void StoredSpace::post_removal(const Record& record) noexcept {
  const Txn txn = removal(record);
  post(txn, [this, txn, anchored = record.row.anchored()](const Outcome& /*outcome*/,
                                                          const std::exception_ptr& error) {
    if (error != nullptr) retry_later(txn, anchored);
  });
}

// Leaves when the store has answered.
void StoredSpace::post(Txn txn, Store::Posted then) noexcept {
  {
    const base::Mutex::Scoped lock{mutex_};
    ++posts_;
  }
  store_->post(std::move(txn), [this, then = std::move(then)](const Outcome& outcome,
                                                              const std::exception_ptr& error) {
    const InStore in_store;
    then(outcome, error);
    {
      const base::Mutex::Scoped lock{mutex_};
      --posts_;
      changed_.notify_all();
    }
    leave();
  });
}

void StoredSpace::withdraw(detail::Waiter& waiter) noexcept {
  if (forked()) return;
  RecordRef record;
  Watches watches;
  {
    const base::Mutex::Scoped lock{mutex_};
    if (asking_.erase(&waiter) != 0) return;  // Whoever asks for it finds that out.
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

void StoredSpace::retry_later(Txn txn, bool anchored) noexcept {
  {
    const base::Mutex::Scoped lock{mutex_};
    retries_.push_back({.txn = std::move(txn), .anchored = anchored});
  }
  start_retrying();
}

void StoredSpace::start_retrying() noexcept {
  {
    const base::Mutex::Scoped lock{mutex_};
    if (std::exchange(retrying_, true)) return;  // Somebody retries already.
  }
  arm_retry();
}

// The end of the space takes the watch back, and retries what is left itself. The watch may fire,
// and its notice arm the next one, before it is kept here: then it must not displace that.
void StoredSpace::arm_retry() noexcept {
  std::uint64_t round = 0;
  {
    const base::Mutex::Scoped lock{mutex_};
    round = ++retry_round_;
  }
  std::unique_ptr<Watch> watch;
  try {
    WatchFor soon;
    soon.until = detail::saturating_add(store_->latest_now(), retry_time);
    watch = store_->watch(std::move(soon), [this] { retry(); });
  } catch (...) {  // NOLINT(bugprone-empty-catch)
    // No thread, no memory: the next failure, or the end, tries again.
  }
  const base::Mutex::Scoped lock{mutex_};
  if (retry_round_ != round) return;
  if (watch == nullptr) retrying_ = false;
  if (!ending_.load(std::memory_order_acquire)) retry_watch_.swap(watch);
}

bool StoredSpace::retry_one() {
  std::optional<Row> stray;
  std::optional<Txn> txn;
  {
    const base::Mutex::Scoped lock{mutex_};
    if (!strays_.empty()) {
      stray = strays_.front();
    } else if (!retries_.empty()) {
      txn = retries_.front().txn;
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
    bool left = !session_->lost().stop_requested();
    if (!left) {
      const base::Mutex::Scoped lock{mutex_};
      std::erase_if(retries_, [](const Retry& retry) { return !retry.anchored; });
      std::erase_if(strays_, [](const Row& row) { return !row.anchored(); });
      left = !retries_.empty() || !strays_.empty();
      retrying_ = left;
    }
    if (left) arm_retry();
  }
}

void StoredSpace::close() noexcept {
  if (forked()) return;
  if (!closed_.exchange(true, std::memory_order_acq_rel)) {
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
    for (detail::Waiter* const waiter : take_all_asking()) {
      tell(*waiter, detail::WaitOutcome::closed);
    }
    remove_all(ended);
    for (const RecordRef& record : ended) {
      // Not the last: the Space itself leaves after this.
      // NOLINTNEXTLINE(clang-analyzer-cplusplus.NewDelete)
      tell(*record->waiter, detail::WaitOutcome::closed);
      leave();
    }
    leave();
  }
  await_end();
}

// The earliest first: who waits behind them waits for the last, and is woken once. After one step
// that fails the others are not tried now: each might wait for a server that is gone.
void StoredSpace::remove_all(std::span<const RecordRef> records) noexcept {
  std::vector<RecordRef> sorted{records.begin(), records.end()};
  std::erase_if(sorted, [](const RecordRef& record) { return record->adopted; });
  std::ranges::sort(sorted, {}, [](const RecordRef& record) { return record->number; });
  bool works = true;
  bool anchored = false;  // One of the step's.
  const auto remove = [&](Txn txn) noexcept {
    try {
      if (works) store_->apply(txn);
    } catch (...) {
      works = false;
    }
    if (!works) retry_later(std::move(txn), anchored);
    anchored = false;
  };
  Txn step;
  for (const RecordRef& record : sorted) {
    Txn one;
    Tickets::add_removal(record->row, record->number, one);
    if (!step.writes.empty() && step.writes.size() + one.writes.size() > max_removals) {
      remove(std::exchange(step, {}));
    }
    std::ranges::move(one.writes, std::back_inserter(step.writes));
    anchored = anchored || record->row.anchored();
  }
  if (!step.writes.empty()) remove(std::move(step));
}

// ---- The end ----

thread_local int StoredSpace::InStore::depth = 0;
thread_local const StoredSpace* StoredSpace::Working::current = nullptr;

// On a thread of its own: one that is in the store's hands, or that the end waits for, can't end
// the space, and whoever closes it waits for a limited time only.
void StoredSpace::leave() noexcept {
  if (users_.fetch_sub(1, std::memory_order_acq_rel) != 1 || forked()) return;
  // Calls of a Locker that outlives the space come and go, too.
  if (ending_.exchange(true, std::memory_order_acq_rel)) return;
  bool awaited = true;
  {
    const base::Mutex::Scoped lock{mutex_};
    awaited = !given_up_;
  }
  try {
    const Store& store = *store_;
    run_ending(typeid(store), awaited ? ending_limit : 0s, [this] { end(); });
  } catch (...) {
    // No thread can be started. Where it can't be done here, the process's exit ends the session.
    if (!InStore::here() && !Working::here(this)) end();
  }
}

void StoredSpace::end() noexcept {
  on_lost_.reset();
  std::unique_ptr<Watch> watch;
  {
    const base::Mutex::Scoped lock{mutex_};
    watch.swap(retry_watch_);
  }
  watch.reset();
  retry_before_end();
  session_.reset();
  timers_.reset();
  request_threads_.reset();
  runner_.reset();
  callers_.reset();
  store_.reset();
  {
    const base::Mutex::Scoped lock{mutex_};
    ended_ = true;
    changed_.notify_all();
  }
  disown();
}

// What is left after that goes with the session, or with the anchor.
void StoredSpace::retry_before_end() noexcept {
  const auto until = std::chrono::steady_clock::now() + ending_limit;
  const auto worth_it = [this] {
    if (!session_->lost().stop_requested()) return true;
    const base::Mutex::Scoped lock{mutex_};
    return std::ranges::any_of(retries_, &Retry::anchored) ||
           std::ranges::any_of(strays_, &Row::anchored);
  };
  for (bool left = true; left && worth_it();) {
    try {
      left = retry_one();
    } catch (...) {
      if (std::chrono::steady_clock::now() >= until) return;
      std::this_thread::sleep_for(retry_time);
    }
  }
}

// Until what was dropped is gone from the store and, if nothing is held any more, all of this has
// ended.
void StoredSpace::await_end() noexcept {
  if (InStore::here() || Working::here(this)) return;
  const auto until = std::chrono::steady_clock::now() + ending_limit;
  base::Mutex::Scoped lock{mutex_};
  while (!given_up_ && !ended_ && (holds_ == 0 || posts_ > 0)) {
    given_up_ = changed_.wait_until(lock, until) == std::cv_status::timeout;
  }
}

void StoredSpace::abandon() noexcept {
  if (forked()) return;
  close();
  disown();
}

void StoredSpace::disown() noexcept {
  if (owners_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
}

}  // namespace tenure::stored
