#include "store/sqlite/writers.hpp"

#include <algorithm>
#include <utility>

#include "base/futex.hpp"
#include "store/sqlite/threads.hpp"

namespace tenure::sqlite {

Outcome Writers::apply(const Txn& txn) {
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

void Writers::post(Txn txn, Store::Posted done) {
  auto item = std::make_unique<Item>();
  item->own = std::move(txn);
  item->txn = &item->own;
  item->posted = true;
  item->done = std::move(done);
  base::Mutex::Scoped lock{mutex_};
  if (!poster_.joinable()) {
    poster_ = quiet_thread([self = shared_from_this()] { self->serve(); });
  }
  queue_.push_back(item.get());
  posts_.fetch_add(1);
  std::ignore = item.release();
  const bool led = led_;
  lock.unlock();
  if (!led) work_.notify_one();
}

bool Writers::take_batch() {
  const base::Mutex::Scoped lock{mutex_};
  if (queue_.empty()) {
    led_ = false;
    return false;
  }
  const auto count = static_cast<std::ptrdiff_t>(std::min(queue_.size(), max_batch));
  taken_.assign(queue_.begin(), queue_.begin() + count);
  queue_.erase(queue_.begin(), queue_.begin() + count);
  return true;
}

void Writers::lead(const Item* own) {
  for (int turn = 0; turn < max_turns || own != nullptr; ++turn) {
    if (!take_batch()) return;
    batch_.assign(taken_.begin(), taken_.end());
    engine_->write(batch_);
    std::size_t posts = 0;
    for (const Item* item : taken_) posts += item->posted ? 1 : 0;
    if (posts != 0) posts_.fetch_sub(posts);
    for (Item* item : taken_) {
      if (item == own) {
        own = nullptr;
      } else {
        finish(item);
      }
    }
  }
  const base::Mutex::Scoped lock{mutex_};
  pass_on();
}

// To the first that waits; posts before it are carried along. Where there are only posts, the
// poster does them.
void Writers::pass_on() {
  const auto next = std::ranges::find_if(queue_, [](const Item* item) { return !item->posted; });
  if (next != queue_.end()) {
    (*next)->state.store(leader, std::memory_order_release);
    base::futex_wake(&(*next)->state, 1);
    return;
  }
  led_ = false;
  if (!queue_.empty()) work_.notify_one();
}

// The item of an apply is gone as soon as its thread sees the state.
void Writers::finish(Item* item) {
  if (!item->posted) {
    std::atomic<std::uint32_t>& state = item->state;
    state.store(finished, std::memory_order_release);
    base::futex_wake(&state, 1);
    return;
  }
  const std::unique_ptr<Item> own{item};
  if (own->done) own->done(own->outcome, own->error);
}

void Writers::serve() {
  base::Mutex::Scoped lock{mutex_};
  while (true) {
    if (!queue_.empty() && !led_) {
      led_ = true;
      lock.unlock();
      lead(nullptr);
      lock.lock();
    } else if (stopping_ && queue_.empty()) {
      return;
    } else {
      work_.wait(lock);
    }
  }
}

void Writers::stop() {
  std::thread poster;
  {
    const base::Mutex::Scoped lock{mutex_};
    stopping_ = true;
    poster = std::move(poster_);
  }
  work_.notify_one();
  if (!poster.joinable()) return;
  if (poster.get_id() == std::this_thread::get_id()) {
    poster.detach();
  } else {
    poster.join();
  }
}

}  // namespace tenure::sqlite
