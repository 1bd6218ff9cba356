#include "store/etcd/watches.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/fork.hpp"
#include "store/threads.hpp"
#include "tenure/detail/saturating.hpp"

namespace tenure::etcd {
namespace {

constexpr auto retry_time = std::chrono::milliseconds{100};

bool is_one_key(const Range& range) noexcept {
  return range.to.size() == range.from.size() + 1 && range.to.back() == '\0' &&
         range.to.starts_with(range.from);
}

bool has_wide(const WatchFor& what) noexcept {
  return std::ranges::any_of(what.ranges, [](const Range& range) { return !is_one_key(range); });
}

void drop(std::vector<std::uint64_t>& ids, std::uint64_t id) {
  const auto at = std::ranges::find(ids, id);
  if (at == ids.end()) return;
  *at = ids.back();
  ids.pop_back();
}

}  // namespace

class Watches::Handle final : public Watch {
 public:
  Handle(std::shared_ptr<Watches> watches, std::uint64_t id, std::shared_ptr<Store> keep)
      : keep_(std::move(keep)), watches_(std::move(watches)), id_(id) {}
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  ~Handle() override {
    // In a forked child it is the parent's table. Its store, which is kept here, does not free it.
    if (generation_ == base::fork_generation()) watches_->remove(id_);
  }

 private:
  const std::shared_ptr<Store> keep_;
  const std::shared_ptr<Watches> watches_;
  const std::uint64_t id_;
  const std::uint64_t generation_ = base::fork_generation();
};

std::unique_ptr<Watch> Watches::add(WatchFor what, Store::Notice notice,
                                    std::shared_ptr<Store> keep) {
  auto armed = std::make_unique<Armed>();
  armed->what = std::move(what);
  armed->notice = std::move(notice);
  const Lock lock{mutex_};
  start();
  const std::uint64_t id = ++last_id_;
  armed->id = id;
  auto handle = std::make_unique<Handle>(shared_from_this(), id, std::move(keep));
  const Armed& added = *armed_.emplace(id, std::move(armed)).first->second;
  link(added);
  if (due(added.what)) {
    make_ready(id);
  } else if (!added.what.session.empty()) {
    const auto seen = seen_.find(added.what.session);
    if (seen == seen_.end() || !live_ || seen->second < since_) ask_about(added.what.session);
  }
  work_.notify_one();
  return handle;
}

bool Watches::due(const WatchFor& what) const {
  if (what.until && *what.until <= engine_->clock().now()) return true;
  if (!what.session.empty() && dead_.contains(what.session)) return true;
  if (what.ranges.empty() || !live_) return false;
  if (what.after < floor_) return true;
  for (auto at = recent_.rbegin(); at != recent_.rend() && at->revision > what.after; ++at) {
    if (std::ranges::any_of(what.ranges,
                            [&](const Range& range) { return range.holds(at->key); })) {
      return true;
    }
  }
  return false;
}

void Watches::ask_about(const std::string& session) {
  if (std::ranges::find(questions_, session) == questions_.end()) questions_.push_back(session);
}

bool Watches::alive(std::string_view session) {
  if (!lease_of(session)) return false;
  const std::string id{session};
  {
    const Lock lock{mutex_};
    if (dead_.contains(id)) return false;
  }
  const Engine::Life life = engine_->look_at_mark(id);
  const Lock lock{mutex_};
  if (!life.alive) {
    died(id);
    work_.notify_one();
    return false;
  }
  if (seen_.size() >= max_sessions) seen_.clear();
  seen_[id] = life.at;
  return true;
}

void Watches::remove(std::uint64_t id) noexcept {
  std::unique_ptr<Armed> gone;  // Destroyed when the mutex is free.
  Lock lock{mutex_};
  const auto at = armed_.find(id);
  if (at != armed_.end()) {
    unlink(*at->second);
    gone = std::move(at->second);
    armed_.erase(at);
  } else if (const auto due =
                 std::ranges::find(ready_, id, [](const auto& one) { return one->id; });
             due != ready_.end()) {
    gone = std::move(*due);
    ready_.erase(due);
  } else if (service_id_ != std::this_thread::get_id()) {
    while (running_ == id) ran_.wait(lock);
  }
  lock.unlock();
}

void Watches::link(const Armed& armed) {
  for (const Range& range : armed.what.ranges) {
    if (is_one_key(range)) by_key_[range.from].push_back(armed.id);
  }
  if (has_wide(armed.what)) wide_.push_back(armed.id);
  if (armed.what.until) timers_.emplace(*armed.what.until, armed.id);
  if (!armed.what.session.empty()) by_session_[armed.what.session].push_back(armed.id);
}

void Watches::unlink(const Armed& armed) {
  for (const Range& range : armed.what.ranges) {
    const auto at = is_one_key(range) ? by_key_.find(range.from) : by_key_.end();
    if (at == by_key_.end()) continue;
    drop(at->second, armed.id);
    if (at->second.empty()) by_key_.erase(at);
  }
  if (has_wide(armed.what)) drop(wide_, armed.id);
  if (armed.what.until) {
    const auto [begin, end] = timers_.equal_range(*armed.what.until);
    const auto at =
        std::find_if(begin, end, [&](const auto& one) { return one.second == armed.id; });
    if (at != end) timers_.erase(at);
  }
  if (const auto at = by_session_.find(armed.what.session); at != by_session_.end()) {
    drop(at->second, armed.id);
    if (at->second.empty()) by_session_.erase(at);
  }
}

void Watches::make_ready(std::uint64_t id) {
  const auto at = armed_.find(id);
  if (at == armed_.end()) return;
  unlink(*at->second);
  ready_.push_back(std::move(at->second));
  armed_.erase(at);
}

void Watches::make_all_ready() {
  Ids all;
  for (const auto& [id, armed] : armed_) all.push_back(id);
  std::ranges::sort(all);
  for (const std::uint64_t id : all) make_ready(id);
}

void Watches::died(const std::string& session) {
  if (dead_.size() >= max_sessions) {  // Then all are asked about anew.
    dead_.clear();
    seen_.clear();
  }
  dead_.insert(session);
  seen_.erase(session);
  const auto at = by_session_.find(session);
  if (at == by_session_.end()) return;
  const Ids ids = at->second;
  for (const std::uint64_t id : ids) make_ready(id);
}

// --- the service thread

void Watches::start() {
  if (stopping_) return;
  // Each on its own: the last attempt may have got one thread and not the other.
  if (!service_.joinable()) {
    service_ = stores::quiet_thread([self = shared_from_this()] { self->serve(); });
  }
  if (!follower_.joinable()) {
    follower_ = stores::quiet_thread([self = shared_from_this()] { self->follow(); });
  }
}

void Watches::serve() {
  const Lock lock{mutex_};
  service_id_ = std::this_thread::get_id();
  while (!stopping_) {
    look_at_timers();
    if (!ready_.empty()) {
      run_ready();
    } else if (!questions_.empty()) {
      look_at_session();
    } else {
      nap();
    }
  }
}

void Watches::run_ready() {
  const std::unique_ptr<Armed> next = std::move(ready_.front());
  ready_.pop_front();
  running_ = next->id;
  mutex_.unlock();
  next->notice();
  next->notice = nullptr;  // What it captured may take the watch back: that must not wait for us.
  mutex_.lock();
  running_ = 0;
  ran_.notify_all();
}

void Watches::look_at_timers() {
  if (timers_.empty()) return;
  const Instant now = engine_->clock().now();
  while (!timers_.empty() && timers_.begin()->first <= now) make_ready(timers_.begin()->second);
}

// A session that a watch waits for, and that was not seen alive since the stream began.
void Watches::look_at_session() {
  const std::string session = std::move(questions_.front());
  questions_.pop_front();
  if (!by_session_.contains(session)) return;
  mutex_.unlock();
  bool known = true;
  try {
    if (lease_of(session)) {
      static_cast<void>(alive(session));
    } else {
      const Lock lock{mutex_};
      died(session);
    }
  } catch (const Error&) {
    known = false;
  }
  mutex_.lock();
  if (!known) {
    if (!live_) return;  // The next stream asks again.
    ask_about(session);
    work_.wait_for(mutex_, retry_time);
    return;
  }
  const auto seen = seen_.find(session);
  if (seen != seen_.end() && live_ && seen->second < since_) ask_about(session);
}

void Watches::nap() {
  constexpr std::chrono::nanoseconds longest = std::chrono::seconds{1};
  if (timers_.empty()) {
    work_.wait(mutex_);
    return;
  }
  const std::chrono::nanoseconds left =
      detail::saturating_sub(timers_.begin()->first, engine_->clock().now());
  work_.wait_for(mutex_, std::clamp(left, std::chrono::nanoseconds{0}, longest));
}

void Watches::stop() {
  std::unordered_map<std::uint64_t, std::unique_ptr<Armed>> armed;
  std::deque<std::unique_ptr<Armed>> ready;
  std::thread service;
  std::thread follower;
  {
    const Lock lock{mutex_};
    stopping_ = true;
    by_key_.clear();
    wide_.clear();
    timers_.clear();
    by_session_.clear();
    armed.swap(armed_);
    ready.swap(ready_);
    service = std::move(service_);
    follower = std::move(follower_);
    work_.notify_all();
    stopped_.notify_all();
  }
  changes_.cancel();
  for (std::thread* const thread : {&service, &follower}) {
    if (!thread->joinable()) continue;
    if (thread->get_id() == std::this_thread::get_id()) {
      thread->detach();
    } else {
      thread->join();
    }
  }
}

}  // namespace tenure::etcd
