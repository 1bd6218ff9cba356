#include "flow/inbox.hpp"

#include <chrono>
#include <expected>

#include "flow/core.hpp"
#include "tenure/detail/saturating.hpp"

namespace tenure::flow {
namespace {

constexpr std::size_t many_messages = 256;
constexpr int pause_factor = 4;
constexpr std::chrono::milliseconds inbox_retry_pause{100};  // The store cannot be read.

}  // namespace

void Inbox::watch(Revision after) {
  const base::Mutex::Scoped lock{watch_mutex_};
  if (core_.stopping()) return;
  WatchFor what;
  what.ranges.push_back(keys::inboxes());
  what.after = after;
  watch_ = core_.store().watch(std::move(what), [weak = core_.weak_from_this()] {
    if (const std::shared_ptr<Core> core = weak.lock()) {
      core->post([core] { core->read_inbox(); });
    }
  });
}

void Inbox::stop() {
  const base::Mutex::Scoped lock{watch_mutex_};
  watch_.reset();
}

bool Inbox::begin_scan() {
  Instant later;
  {
    const base::Mutex::Scoped lock{mutex_};
    if (scanning_ || pausing_) {
      again_ = true;
      return false;
    }
    if (core_.store().latest_now() >= not_before_) {
      scanning_ = true;
      again_ = false;
      done_.clear();
      return true;
    }
    pausing_ = true;
    later = not_before_;
  }
  core_.post_at(later, [this] {
    {
      const base::Mutex::Scoped lock{mutex_};
      pausing_ = false;
      not_before_ = Instant::min();
    }
    read();
  });
  return false;
}

void Inbox::read() {
  if (core_.stopping() || !begin_scan()) return;
  const Instant began = core_.store().latest_now();
  Outcome outcome;
  try {
    Txn txn;
    txn.reads.push_back(keys::inboxes());
    outcome = core_.store().apply(txn);
  } catch (const StoreError&) {
    end_scan(began, 0);
    core_.post_at(detail::saturating_add(core_.store().latest_now(), inbox_retry_pause),
                  [this] { read(); });
    return;
  }
  watch(outcome.revision);
  for (const Entry& entry : outcome.reads.front()) hand_out(entry);
  end_scan(began, outcome.reads.front().size());
}

void Inbox::hand_out(const Entry& entry) {
  const ReignRef reign = core_.reign_of(keys::partition_of_inbox(entry.key));
  if (!reign) return;
  {
    const base::Mutex::Scoped lock{mutex_};
    if (done_.contains(entry.key)) return;
    const auto at = handling_.find(entry.key);
    if (at != handling_.end() && at->second.reign == reign->number) return;
  }
  std::expected<Message, std::string> message = decode_message(entry.value);
  {
    const base::Mutex::Scoped lock{mutex_};
    handling_[entry.key] = {.reign = reign->number,
                            .workflow = message ? message->workflow : std::string{}};
  }
  if (!message) {
    core_.report({}, "a message cannot be read: " + message.error());
    return;
  }
  core_.deliver(*std::move(message), entry.key);
}

void Inbox::end_scan(Instant began, std::size_t found) {
  bool again = false;
  {
    const base::Mutex::Scoped lock{mutex_};
    scanning_ = false;
    done_.clear();
    if (found > many_messages) {
      const Instant now = core_.store().latest_now();
      not_before_ = detail::saturating_add(now, pause_factor * detail::saturating_sub(now, began));
    }
    again = again_;
  }
  if (again) core_.post([this] { read(); });
}

void Inbox::forget(const std::string& workflow) {
  const base::Mutex::Scoped lock{mutex_};
  std::erase_if(handling_, [&](const auto& one) { return one.second.workflow == workflow; });
}

void Inbox::done(const std::string& key) {
  const base::Mutex::Scoped lock{mutex_};
  handling_.erase(key);
  if (scanning_) done_.insert(key);
}

}  // namespace tenure::flow
