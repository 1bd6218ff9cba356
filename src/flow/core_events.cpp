// Timers that are due, and messages of other processes.
#include <algorithm>

#include "flow/core.hpp"
#include "tenure/detail/saturating.hpp"

namespace tenure::flow {

// --- timers

void Core::add_timer(const std::string& key) {
  {
    const base::Mutex::Scoped lock{timer_mutex_};
    const auto at = windows_.find(keys::partition_of_inbox(key));
    if (at == windows_.end()) return;
    at->second.add(key);
  }
  arm();
}

void Core::remove_timer(const std::string& key) {
  const base::Mutex::Scoped lock{timer_mutex_};
  const auto at = windows_.find(keys::partition_of_inbox(key));
  if (at != windows_.end()) at->second.remove(key);
}

void Core::arm() {
  const base::Mutex::Scoped lock{timer_mutex_};
  if (stopping()) return;
  std::optional<Instant> next;
  if (!later_.empty()) next = later_.begin()->first;
  for (const auto& [partition, timers] : windows_) {
    if (const std::optional<Instant> first = timers.next()) {
      next = std::min(next.value_or(*first), *first);
    }
  }
  if (!next || (armed_ && *armed_ <= *next)) return;
  armed_ = next;
  WatchFor what;
  what.until = next;
  alarm_ = store_->watch(std::move(what), [weak = weak_from_this()] {
    if (const std::shared_ptr<Core> core = weak.lock()) {
      core->post([core] { core->fire(); });
    }
  });
}

void Core::fire() {
  const base::Mutex::Scoped one_at_a_time{fire_mutex_};
  Instant now;
  try {
    now = store_->now();
  } catch (const StoreError&) {
    {
      const base::Mutex::Scoped lock{timer_mutex_};
      armed_.reset();
    }
    post_at(detail::saturating_add(store_->latest_now(), std::chrono::milliseconds{100}),
            [this] { fire(); });
    return;
  }
  std::vector<std::function<void()>> jobs;
  std::vector<std::string> due;
  bool again = true;
  while (again && !stopping()) {
    std::vector<std::pair<Partition, Range>> wanted;
    {
      const base::Mutex::Scoped lock{timer_mutex_};
      armed_.reset();
      while (!later_.empty() && later_.begin()->first <= now) {
        jobs.push_back(std::move(later_.extract(later_.begin()).mapped()));
      }
      for (auto& [partition, timers] : windows_) {
        for (auto next = timers.next(); next && *next <= now; next = timers.next()) {
          due.push_back(timers.take_first());
        }
        if (std::optional<Range> range = timers.wanted()) {
          wanted.emplace_back(partition, *std::move(range));
        }
      }
    }
    again = !wanted.empty() && read_timers(wanted);
  }
  for (const std::string& key : due) {
    const std::optional<keys::Timer> timer = keys::parse_timer(key);
    if (!timer) continue;
    if (keys::is_cleaning(timer->key)) {
      post([this, timer] { clean(*timer); });
    } else if (timer->key == keys::trigger_timer) {
      triggers_.due(timer->id);
    } else {
      offer(timer->id, {Event::Timer{*timer}});
    }
  }
  for (std::function<void()>& job : jobs) post(std::move(job));
  arm();
}

// False: the store cannot be read; it is tried again later.
bool Core::read_timers(const std::vector<std::pair<Partition, Range>>& wanted) {
  Txn txn;
  for (const auto& [partition, range] : wanted) txn.reads.push_back(range);
  Outcome outcome;
  bool ok = true;
  try {
    outcome = store_->apply(txn);
  } catch (const StoreError&) {
    ok = false;
  }
  {
    const base::Mutex::Scoped lock{timer_mutex_};
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      const auto at = windows_.find(wanted[i].first);
      if (at == windows_.end()) continue;
      if (ok) {
        at->second.fill(outcome.reads[i]);
      } else {
        at->second.fail();
      }
    }
  }
  if (!ok) {
    post_at(detail::saturating_add(store_->latest_now(), std::chrono::milliseconds{100}),
            [this] { post([this] { fire(); }); });
  }
  return ok;
}

// --- messages

void Core::deliver(Message message, const std::string& key) {
  if (message.kind >= Message::Kind::trigger_changed) {
    triggers_.told(message, key);
    return;
  }
  const std::string id = message.workflow;
  if (message.kind == Message::Kind::retry) {
    post([this, message = std::move(message), key] { retry_told(message, key); });
    return;
  }
  if (message.kind == Message::Kind::terminate) {
    const std::shared_ptr<Instance> here = find_instance(id);
    if (here && here->end_stuck({.message = message, .key = key})) return;
  }
  offer(id, {Event::Told{.message = std::move(message), .key = key}});
}

}  // namespace tenure::flow
