#include "store/sqlite/group_commit.hpp"

#include <algorithm>
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
  add(std::move(txn), std::move(done), Kind::post);
}

void GroupCommit::apply_then(Txn txn, Store::Posted done) {
  add(std::move(txn), std::move(done), Kind::then);
}

void GroupCommit::add(Txn txn, Store::Posted done, Kind kind) {
  auto item = std::make_unique<Item>();
  item->own = std::move(txn);
  item->txn = &item->own;
  item->kind = kind;
  item->done = std::move(done);
  base::Mutex::Scoped lock{mutex_};
  committer_.start([self = shared_from_this()] { self->serve(); });
  (kind == Kind::post ? queue_ : later_).push_back(item.get());
  if (kind == Kind::post) posts_.fetch_add(1);
  ++count_of(kind).added;
  std::ignore = item.release();
  const bool led = led_;
  lock.unlock();
  if (!led) work_.notify_one();
}

void GroupCommit::take(Queue& queue) {
  const auto count = static_cast<std::ptrdiff_t>(
      std::min(queue.size(), max_batch - std::min(max_batch, taken_.size())));
  taken_.insert(taken_.end(), queue.begin(), queue.begin() + count);
  queue.erase(queue.begin(), queue.begin() + count);
}

// A batch that needs a sync takes the transactions of later_ along.
bool GroupCommit::take_batch() {
  const base::Mutex::Scoped lock{mutex_};
  taken_.clear();
  take(queue_);
  const bool syncs = std::ranges::any_of(
      taken_, [](const Item* item) { return item->txn->durability == Durability::full; });
  if (syncs) take(later_);
  if (!taken_.empty()) return true;
  handed_ = !later_.empty() && turns_ >= max_turns;
  led_ = handed_;
  if (!later_.empty()) work_.notify_one();
  return false;
}

void GroupCommit::write_batch(const Item*& own) {
  batch_.assign(taken_.begin(), taken_.end());
  executor_->write(batch_);
  std::size_t posts = 0;
  bool synced = false;
  for (const Item* item : taken_) {
    posts += item->kind == Kind::post ? 1 : 0;
    synced = synced || item->txn->durability == Durability::full;
  }
  if (posts != 0) posts_.fetch_sub(posts);
  {
    const base::Mutex::Scoped lock{mutex_};
    turns_ = synced ? 0 : turns_ + 1;
    for (Item* item : taken_) {
      if (item->kind == Kind::then) made_.push_back(item);
    }
    // From here on the committer owns those, and may have deleted them.
    std::erase_if(taken_, [](const Item* item) { return item->kind == Kind::then; });
    if (!made_.empty()) work_.notify_one();
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
  const auto next =
      std::ranges::find_if(queue_, [](const Item* item) { return item->kind == Kind::apply; });
  if (next != queue_.end() && (later_.empty() || turns_ < max_turns)) {
    (*next)->state.store(leader, std::memory_order_release);
    base::futex_wake(&(*next)->state, 1);
    return;
  }
  handed_ = next != queue_.end();  // No other thread may take the lead from a waiting apply.
  led_ = handed_;
  if (!queue_.empty() || !later_.empty()) work_.notify_one();
}

// The item of an apply is destroyed as soon as its thread sees the new state.
void GroupCommit::finish(Item* item) {
  if (item->kind != Kind::apply) {
    finish_posted(item);
    return;
  }
  std::atomic<std::uint32_t>& state = item->state;
  state.store(finished, std::memory_order_release);
  base::futex_wake(&state, 1);
}

void GroupCommit::finish_posted(Item* item) {
  const Kind kind = item->kind;
  const std::exception_ptr error = tell(item);
  const base::Mutex::Scoped lock{mutex_};
  ++count_of(kind).told;
  if (error && !failed_) failed_ = error;
  progress_.notify_all();
}

std::exception_ptr GroupCommit::tell(Item* item) {
  const std::unique_ptr<Item> own{item};
  if (own->done) own->done(own->outcome, own->error);
  return own->error;
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
    work_.wait(lock);
  }
}

// Makes one batch.
void GroupCommit::serve_turn() {
  {
    const base::Mutex::Scoped lock{mutex_};
    taken_.clear();
    take(turns_ < max_turns && !queue_.empty() ? queue_ : later_);
    if (taken_.empty()) take(queue_);
  }
  const Item* nobody = nullptr;
  write_batch(nobody);
  const base::Mutex::Scoped lock{mutex_};
  pass_on();
}

void GroupCommit::call_back() {
  Queue made;
  made.swap(made_);
  if (made.empty()) return;
  mutex_.unlock();
  std::exception_ptr failed;
  {
    const stores::ToldTogether together;
    for (Item* item : made) {
      const std::exception_ptr error = tell(item);
      if (error && !failed) failed = error;
    }
  }
  mutex_.lock();
  then_count_.told += made.size();
  if (failed && !failed_) failed_ = failed;
  progress_.notify_all();
}

void GroupCommit::wait_for_all() {
  if (committer_id_.load() == std::this_thread::get_id()) {
    throw BadRequest("flush() must not be called by a callback of the store: it would wait for it");
  }
  base::Mutex::Scoped lock{mutex_};
  const std::uint64_t posts = posts_count_.added;
  const std::uint64_t then = then_count_.added;
  while (posts_count_.told < posts || then_count_.told < then) progress_.wait(lock);
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
