#include "store/common/post_queue.hpp"

#include <algorithm>
#include <iterator>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "store/common/told_together.hpp"
#include "tenure/error.hpp"

namespace tenure::stores {

std::shared_ptr<PostQueue> PostQueue::of(std::function<Outcome(const Txn&)> apply) {
  return std::make_shared<PostQueue>(1, [apply = std::move(apply)](std::span<Posting> postings) {
    for (Posting& one : postings) {
      try {
        one.outcome = apply(one.txn);
      } catch (...) {
        one.error = std::current_exception();
      }
    }
  });
}

void PostQueue::post(Txn txn, Store::Posted done) {
  const base::Mutex::Scoped lock{mutex_};
  thread_.start([self = shared_from_this()] { self->serve(); });
  queue_.push_back(
      {.txn = std::move(txn), .done = std::move(done), .outcome = {}, .error = nullptr});
  posted_.fetch_add(1);
  work_.notify_one();
}

void PostQueue::wait() {
  const std::uint64_t before = posted_.load();
  if (made_.load() >= before || thread_id_.load() == std::this_thread::get_id()) return;
  base::Mutex::Scoped lock{mutex_};
  while (made_.load() < before) progress_.wait(lock);
}

void PostQueue::wait_until_told() {
  if (thread_id_.load() == std::this_thread::get_id()) {
    throw BadRequest("flush() must not be called by a callback of the store: it would wait for it");
  }
  const std::uint64_t before = posted_.load();
  base::Mutex::Scoped lock{mutex_};
  while (told_ < before) progress_.wait(lock);
}

std::exception_ptr PostQueue::take_error() {
  const base::Mutex::Scoped lock{mutex_};
  return std::exchange(failed_, nullptr);
}

bool PostQueue::idle() {
  const base::Mutex::Scoped lock{mutex_};
  return told_ == posted_.load();
}

void PostQueue::serve() {
  thread_id_ = std::this_thread::get_id();
  base::Mutex::Scoped lock{mutex_};
  while (true) {
    if (queue_.empty()) {
      if (stopping_) return;
      work_.wait(lock);
      continue;
    }
    const auto end =
        queue_.begin() + static_cast<std::ptrdiff_t>(std::min(queue_.size(), max_batch_));
    std::vector<Posting> batch{std::make_move_iterator(queue_.begin()),
                               std::make_move_iterator(end)};
    queue_.erase(queue_.begin(), end);
    lock.unlock();
    make_(batch);
    lock.lock();
    made_.fetch_add(batch.size());
    progress_.notify_all();
    lock.unlock();
    tell(batch);
    lock.lock();
  }
}

// A callback may own the store itself: it is destroyed with the mutex free.
void PostQueue::tell(std::vector<Posting>& batch) {
  std::exception_ptr failed;
  {
    const ToldTogether together;
    for (Posting& one : batch) {
      if (one.done) one.done(one.outcome, one.error);
      const std::exception_ptr error = std::exchange(one, {}).error;
      if (error && !failed) failed = error;
    }
  }
  const base::Mutex::Scoped lock{mutex_};
  told_ += batch.size();
  if (failed && !failed_) failed_ = failed;
  progress_.notify_all();
}

void PostQueue::stop() {
  {
    const base::Mutex::Scoped lock{mutex_};
    stopping_ = true;
    work_.notify_one();
  }
  thread_.end();
}

namespace {

// The keys that transactions write; for an append, every key that its prefix may become.
class Written {
 public:
  void add(const Txn& txn) {
    for (const Write& write : txn.writes) {
      if (write.kind != Write::Kind::append) {
        keys_.insert(write.key);
      } else if (prefixes_.insert(write.key).second) {
        lengths_.insert(write.key.size());
      }
    }
  }
  [[nodiscard]] bool touches(const Txn& txn) const {
    return std::ranges::any_of(txn.guards, [this](const Guard& guard) { return touches(guard); }) ||
           std::ranges::any_of(txn.writes, [this](const Write& write) {
             // Two appends make two keys, whatever their prefixes.
             return write.kind != Write::Kind::append ? has(write.key) : begins(write.key);
           });
  }

 private:
  using Keys = std::set<std::string_view>;

  [[nodiscard]] bool touches(const Guard& guard) const {
    if (guard.kind != Guard::Kind::quiet) return has(guard.range.from);
    const auto within = [&guard](const Keys& keys) {
      const auto at = keys.lower_bound(guard.range.from);
      return at != keys.end() && (guard.range.to.empty() || *at < guard.range.to);
    };
    return within(keys_) || within(prefixes_) || appended(guard.range.from);
  }
  [[nodiscard]] bool has(std::string_view key) const {
    return keys_.contains(key) || appended(key);
  }
  [[nodiscard]] bool appended(std::string_view key) const {
    return std::ranges::any_of(lengths_, [&](std::size_t length) {
      return length <= key.size() && prefixes_.contains(key.substr(0, length));
    });
  }
  // Whether a written key may be one that the prefix becomes.
  [[nodiscard]] bool begins(std::string_view prefix) const {
    const auto at = keys_.lower_bound(prefix);
    return at != keys_.end() && at->starts_with(prefix);
  }

  Keys keys_;
  Keys prefixes_;
  std::set<std::size_t> lengths_;
};

}  // namespace

std::size_t independent(std::span<const Posting> postings,
                        const std::function<bool(const Txn&)>& fits) {
  Written written;
  std::size_t count = 0;
  for (const Posting& one : postings) {
    if (!fits(one.txn) || written.touches(one.txn)) break;
    written.add(one.txn);
    ++count;
  }
  return std::max<std::size_t>(count, 1);
}

}  // namespace tenure::stores
