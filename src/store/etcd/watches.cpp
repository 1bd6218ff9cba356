#include "store/etcd/watches.hpp"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "base/boot_clock.hpp"
#include "tenure/detail/saturating.hpp"

namespace tenure::etcd {
// Ranges are watched as everything.
Watches::Watches(std::shared_ptr<Executor> executor)
    : executor_(std::move(executor)),
      interests_(
          max_interests,
          [](const Range& range) { return stores::is_one_key(range) ? range.from : std::string{}; },
          [](const std::string& session) { return '\0' + session; }),
      table_([this](const WatchFor& what, bool armed) TENURE_REQUIRES(table_.mutex) {
        armed ? interests_.want(what) : interests_.unwant(what, base::boot_ns());
      }) {}

std::unique_ptr<Watch> Watches::add(WatchFor what, Store::Notice notice,
                                    std::shared_ptr<Store> keep) {
  what.after = Revision{static_cast<std::uint64_t>(executor_->by_etcd(what.after).value_or(0))};
  Lock lock{table_.mutex};
  start();
  const std::optional<bool> is_due = due(what);
  if (is_due != true && !what.session.empty()) {
    const auto seen = seen_.find(what.session);
    const auto since = told_since(what.session);
    // If it is not told of that session yet, the session is asked about when it is.
    if (since && (seen == seen_.end() || seen->second < *since)) ask_about(what.session);
  }
  const bool wide = !std::ranges::all_of(what.ranges, stores::is_one_key);
  const auto id = table_.add(std::move(what), std::move(notice));
  if (is_due == true) table_.due(id);
  if (!is_due && live_) fresh_.push_back(id);
  work_.notify_one();
  if (!is_due && wide) await_interests(lock, id);
  return stores::WatchTable::handle({shared_from_this(), &table_}, id, std::move(keep));
}

std::optional<bool> Watches::due(const WatchFor& what) const {
  if (what.until && *what.until <= executor_->clock().now()) return true;
  if (!what.session.empty() && dead_.contains(what.session)) return true;
  for (const Range& range : what.ranges) {
    const std::optional<Revision> since = interests_.since(range);
    if (!since) return std::nullopt;
    if (what.after < *since || what.after < floor_) return true;
  }
  if (what.ranges.empty()) return false;
  for (auto at = recent_.rbegin(); at != recent_.rend() && at->revision > what.after; ++at) {
    if (std::ranges::any_of(what.ranges,
                            [&](const Range& range) { return range.holds(at->key); })) {
      return true;
    }
  }
  return false;
}

std::optional<std::int64_t> Watches::told_since(const std::string& session) const {
  if (since_) return since_;
  const auto at = lease_since_.find(session);
  return at == lease_since_.end() ? std::nullopt : std::optional{at->second};
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
    // It was alive when the stream began to tell of it, and the stream has not told of its death.
    const auto seen = seen_.find(id);
    const auto since = told_since(id);
    if (live_ && since && seen != seen_.end() && seen->second >= *since) return true;
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
  server_ = std::this_thread::get_id();
  while (!stopping_) {
    if (table_.next_time()) table_.reached(executor_->clock().now());
    if (table_.any_ready()) {
      table_.run_next();
    } else if (update_interests() || read_interests()) {
      continue;
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
    if (!told_since(session)) return;  // It is asked about when the stream tells of it.
    ask_about(session);
    work_.wait_for(table_.mutex, retry_time);
    return;
  }
  const auto seen = seen_.find(session);
  if (seen != seen_.end() && seen->second < told_since(session).value_or(0)) ask_about(session);
}

void Watches::nap() {
  constexpr std::chrono::nanoseconds longest = std::chrono::seconds{1};
  const auto first = table_.next_time();
  const auto drop_at = live_ ? interests_.drop_at() : std::nullopt;
  if (!first && !drop_at) {
    work_.wait(table_.mutex);
    return;
  }
  std::chrono::nanoseconds left = longest;
  if (first) left = detail::saturating_sub(*first, executor_->clock().now());
  if (drop_at) left = std::min(left, std::chrono::nanoseconds{*drop_at - base::boot_ns()});
  work_.wait_for(table_.mutex, std::clamp(left, std::chrono::nanoseconds{0}, longest));
}

void Watches::stop() {
  {
    const Lock lock{table_.mutex};
    stopping_ = true;
    work_.notify_all();
    stopped_.notify_all();
    judged_.notify_all();
  }
  table_.clear();
  changes_.cancel();
  service_.end();
  stream_.end();
}

}  // namespace tenure::etcd
