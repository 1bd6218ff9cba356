#include "store/etcd/watches.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include "tenure/detail/saturating.hpp"

namespace tenure::etcd {
namespace {

constexpr auto retry_time = std::chrono::milliseconds{100};

}  // namespace

std::unique_ptr<Watch> Watches::add(WatchFor what, Store::Notice notice,
                                    std::shared_ptr<Store> keep) {
  const Lock lock{table_.mutex};
  start();
  const bool is_due = due(what);
  if (!is_due && !what.session.empty()) {
    const auto seen = seen_.find(what.session);
    if (seen == seen_.end() || !live_ || seen->second < since_) ask_about(what.session);
  }
  const auto id = table_.add(std::move(what), std::move(notice));
  if (is_due) table_.due(id);
  work_.notify_one();
  return stores::WatchTable::handle({shared_from_this(), &table_}, id, std::move(keep));
}

bool Watches::due(const WatchFor& what) const {
  if (what.until && *what.until <= executor_->clock().now()) return true;
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
    const Lock lock{table_.mutex};
    if (dead_.contains(id)) return false;
  }
  const Executor::Life life = executor_->read_lease_key(id);
  const Lock lock{table_.mutex};
  if (!life.alive) {
    died(id);
    work_.notify_one();
    return false;
  }
  if (seen_.size() >= max_sessions) seen_.clear();
  seen_[id] = life.at;
  return true;
}

void Watches::died(const std::string& session) {
  if (dead_.size() >= max_sessions) {  // Asks about all sessions again.
    dead_.clear();
    seen_.clear();
  }
  dead_.insert(session);
  seen_.erase(session);
  table_.died(session);
}

// --- the service thread

void Watches::start() {
  if (stopping_) return;
  // Each thread by itself: an earlier call may have started only one of them.
  service_.start([self = shared_from_this()] { self->serve(); });
  stream_.start([self = shared_from_this()] { self->read_stream(); });
}

void Watches::serve() {
  const Lock lock{table_.mutex};
  while (!stopping_) {
    if (table_.next_time()) table_.reached(executor_->clock().now());
    if (table_.any_ready()) {
      table_.run_next();
    } else if (!questions_.empty()) {
      look_at_session();
    } else {
      nap();
    }
  }
}

// A session that a watch waits for, and that was not seen alive since the stream began.
void Watches::look_at_session() {
  const std::string session = std::move(questions_.front());
  questions_.pop_front();
  if (!table_.watches(session)) return;
  table_.mutex.unlock();
  bool known = true;
  try {
    if (lease_of(session)) {
      static_cast<void>(alive(session));
    } else {
      const Lock lock{table_.mutex};
      died(session);
    }
  } catch (...) {
    known = false;
  }
  table_.mutex.lock();
  if (!known) {
    if (!live_) return;  // The next stream asks again.
    ask_about(session);
    work_.wait_for(table_.mutex, retry_time);
    return;
  }
  const auto seen = seen_.find(session);
  if (seen != seen_.end() && live_ && seen->second < since_) ask_about(session);
}

void Watches::nap() {
  constexpr std::chrono::nanoseconds longest = std::chrono::seconds{1};
  const auto first = table_.next_time();
  if (!first) {
    work_.wait(table_.mutex);
    return;
  }
  const std::chrono::nanoseconds left = detail::saturating_sub(*first, executor_->clock().now());
  work_.wait_for(table_.mutex, std::clamp(left, std::chrono::nanoseconds{0}, longest));
}

void Watches::stop() {
  {
    const Lock lock{table_.mutex};
    stopping_ = true;
    work_.notify_all();
    stopped_.notify_all();
  }
  table_.clear();
  changes_.cancel();
  service_.end();
  stream_.end();
}

}  // namespace tenure::etcd
