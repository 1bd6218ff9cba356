#include "store/sqlite/group_commit.hpp"

#include <algorithm>
#include <iterator>
#include <tuple>
#include <utility>

#include "base/futex.hpp"
#include "store/common/told_together.hpp"

namespace tenure::sqlite {

Outcome GroupCommit::apply(const Txn& txn) {
  Item item;
  item.txn = &txn;
  bool leads = false;
  {
    const base::Mutex::Scoped lock{mutex_};
    queue_.push_back(&item);
    leads = !std::exchange(led_, true);
  }
  if (!leads) {
    while (item.state.load(std::memory_order_acquire) == waiting) {
      base::futex_wait(&item.state, waiting);
    }
    leads = item.state.load(std::memory_order_acquire) == leader;
  }
  if (leads) lead(&item);
  if (item.error) std::rethrow_exception(item.error);
  return std::move(item.outcome);
}

void GroupCommit::post(Txn txn, Store::Posted done) {
  auto item = std::make_unique<Item>();
  item->own = std::move(txn);
  item->txn = &item->own;
  item->posted = true;
  item->done = std::move(done);
  base::Mutex::Scoped lock{mutex_};
  committer_.start([self = shared_from_this()] { self->serve(); });
  queue_.push_back(item.get());
  posts_.fetch_add(1);
  ++posts_count_.added;
  std::ignore = item.release();
  const bool wakes = !led_ && std::exchange(asleep_, false);
  lock.unlock();
  if (wakes) work_.notify_one();
}

void GroupCommit::apply_later(std::shared_ptr<Deferred> what) {
  base::Mutex::Scoped lock{mutex_};
  committer_.start([self = shared_from_this()] { self->serve(); });
  later_.push_back(std::move(what));
  ++later_count_.added;
  const bool wakes = !led_ && std::exchange(asleep_, false);
  lock.unlock();
  if (wakes) work_.notify_one();
}

void GroupCommit::take_queue() {
  const auto count = static_cast<std::ptrdiff_t>(std::min(queue_.size(), max_batch));
  taken_.assign(queue_.begin(), queue_.begin() + count);
  queue_.erase(queue_.begin(), queue_.begin() + count);
}

void GroupCommit::take_later() {
  const std::size_t room = max_batch - taken_.size();
  if (later_.size() <= room) {
    taken_later_.swap(later_);
    return;
  }
  const auto end = later_.begin() + static_cast<std::ptrdiff_t>(room);
  taken_later_.assign(std::make_move_iterator(later_.begin()), std::make_move_iterator(end));
  later_.erase(later_.begin(), end);
}

// A batch that needs a sync takes the transactions of later_ along.
bool GroupCommit::take_batch() {
  const base::Mutex::Scoped lock{mutex_};
  take_queue();
  const bool syncs = std::ranges::any_of(
      taken_, [](const Item* item) { return item->txn->durability == Durability::full; });
  if (syncs) take_later();
  if (!taken_.empty()) return true;
  handed_ = !later_.empty() && turns_ >= max_turns;
  led_ = handed_;
  if (!later_.empty()) wake_committer();
  return false;
}

void GroupCommit::write_batch(const Item*& own) {
  batch_.assign(taken_.begin(), taken_.end());
  later_jobs_.clear();
  later_jobs_.resize(taken_later_.size());
  for (std::size_t i = 0; i < taken_later_.size(); ++i) {
    later_jobs_[i].txn = &taken_later_[i]->txn;
    batch_.push_back(&later_jobs_[i]);
  }
  executor_->write(batch_);
  bool synced = false;
  for (const Job* job : batch_) synced = synced || job->txn->durability == Durability::full;
  const auto posts = static_cast<std::size_t>(std::ranges::count(taken_, true, &Item::posted));
  if (posts != 0) posts_.fetch_sub(posts);
  for (std::size_t i = 0; i < taken_later_.size(); ++i) {
    taken_later_[i]->outcome = std::move(later_jobs_[i].outcome);
    taken_later_[i]->error = std::move(later_jobs_[i].error);
  }
  {
    const base::Mutex::Scoped lock{mutex_};
    turns_ = synced ? 0 : turns_ + 1;
    std::ranges::move(taken_later_, std::back_inserter(made_));
    taken_later_.clear();
    if (!made_.empty()) wake_committer();
  }
  for (Item* item : taken_) {
    if (item == own) {
      own = nullptr;
    } else {
      finish(item);
    }
  }
}

void GroupCommit::lead(const Item* own) {
  for (int turn = 0; turn < max_turns || own != nullptr; ++turn) {
    if (!take_batch()) return;
    write_batch(own);
  }
  const base::Mutex::Scoped lock{mutex_};
  pass_on();
}

// Passes the lead to the first waiting apply, which also makes the posts before it. If none waits,
// the committer leads.
void GroupCommit::pass_on() {
  const auto next = std::ranges::find(queue_, false, &Item::posted);
  if (next != queue_.end() && (later_.empty() || turns_ < max_turns)) {
    (*next)->state.store(leader, std::memory_order_release);
    base::futex_wake(&(*next)->state, 1);
    return;
  }
  handed_ = next != queue_.end();  // No other thread may take the lead from a waiting apply.
  led_ = handed_;
  if (!queue_.empty() || !later_.empty()) wake_committer();
}

void GroupCommit::wake_committer() {
  if (std::exchange(asleep_, false)) work_.notify_one();
}

// The item of an apply is destroyed as soon as its thread sees the new state.
void GroupCommit::finish(Item* item) {
  if (item->posted) {
    finish_posted(item);
    return;
  }
  std::atomic<std::uint32_t>& state = item->state;
  state.store(finished, std::memory_order_release);
  base::futex_wake(&state, 1);
}

void GroupCommit::finish_posted(Item* item) {
  std::exception_ptr error;
  {
    const std::unique_ptr<Item> own{item};
    if (own->done) own->done(own->outcome, own->error);
    error = own->error;
  }
  const base::Mutex::Scoped lock{mutex_};
  ++posts_count_.told;
  if (error && !failed_) failed_ = error;
  progress_.notify_all();
}

void GroupCommit::serve() {
  committer_id_ = std::this_thread::get_id();
  base::Mutex::Scoped lock{mutex_};
  while (true) {
    if (handed_ || (!led_ && !(queue_.empty() && later_.empty()))) {
      handed_ = false;
      led_ = true;
      lock.unlock();
      serve_turn();
      lock.lock();
    }
    call_back();
    if (handed_ || !made_.empty() || (!led_ && !(queue_.empty() && later_.empty()))) continue;
    if (stopping_) return;
    asleep_ = true;
    work_.wait(lock);
    asleep_ = false;
  }
}

// Makes one batch.
void GroupCommit::serve_turn() {
  {
    const base::Mutex::Scoped lock{mutex_};
    taken_.clear();
    if (turns_ < max_turns && !queue_.empty()) {
      take_queue();
    } else {
      take_later();
    }
    if (taken_.empty() && taken_later_.empty()) take_queue();
  }
  const Item* nobody = nullptr;
  write_batch(nobody);
  const base::Mutex::Scoped lock{mutex_};
  pass_on();
}

void GroupCommit::call_back() {
  if (made_.empty()) return;
  Later made;
  made.swap(made_);
  mutex_.unlock();
  std::exception_ptr failed;
  {
    const stores::ToldTogether together;
    for (std::shared_ptr<Deferred>& one : made) {
      if (one->error && !failed) failed = one->error;
      Deferred& what = *one;
      what.done(std::move(one));
    }
  }
  mutex_.lock();
  later_count_.told += made.size();
  if (failed && !failed_) failed_ = failed;
  progress_.notify_all();
}

void GroupCommit::wait_for_all() {
  if (committer_id_.load() == std::this_thread::get_id()) {
    throw BadRequest("flush() must not be called by a callback of the store: it would wait for it");
  }
  base::Mutex::Scoped lock{mutex_};
  const std::uint64_t posts = posts_count_.added;
  const std::uint64_t later = later_count_.added;
  while (posts_count_.told < posts || later_count_.told < later) progress_.wait(lock);
  const std::exception_ptr failed = std::exchange(failed_, nullptr);
  lock.unlock();
  if (failed) std::rethrow_exception(failed);
}

void GroupCommit::stop() {
  {
    const base::Mutex::Scoped lock{mutex_};
    stopping_ = true;
  }
  work_.notify_one();
  committer_.end();
}

}  // namespace tenure::sqlite
