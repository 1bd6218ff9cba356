#include "store/postgres/watches.hpp"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "base/fork.hpp"
#include "store/postgres/sessions.hpp"
#include "store/threads.hpp"

namespace tenure::postgres {
namespace {

bool is_one_key(const Range& range) {
  return range.to.size() == range.from.size() + 1 && range.to.back() == '\0' &&
         range.to.starts_with(range.from);
}

void drop(std::vector<std::uint64_t>& ids, std::uint64_t id) {
  const auto at = std::ranges::find(ids, id);
  if (at == ids.end()) return;
  *at = ids.back();
  ids.pop_back();
}

bool touches(const std::vector<Range>& ranges, const std::vector<std::string>& keys) {
  return std::ranges::any_of(keys, [&](const std::string& key) {
    return std::ranges::any_of(ranges, [&](const Range& range) { return range.holds(key); });
  });
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

Watches::Watches(std::shared_ptr<Engine> engine, std::shared_ptr<Sessions> sessions)
    : engine_(std::move(engine)),
      sessions_(std::move(sessions)),
      bell_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (bell_ < 0) throw StoreError("cannot create an eventfd: raise the limit on open files");
}

Watches::~Watches() { ::close(bell_); }

std::unique_ptr<Watch> Watches::add(WatchFor what, Store::Notice notice,
                                    std::shared_ptr<Store> keep) {
  auto armed = std::make_unique<Armed>();
  armed->what = std::move(what);
  armed->notice = std::move(notice);
  const Lock lock{mutex_};
  const std::uint64_t id = ++last_id_;
  armed->id = id;
  auto handle = std::make_unique<Handle>(shared_from_this(), id, std::move(keep));
  if (!service_.joinable() && !stopping_) {
    service_ = stores::quiet_thread([self = shared_from_this()] { self->serve(); });
  }
  const Armed& added = *armed_.emplace(id, std::move(armed)).first->second;
  link(added);
  if (known_from_ && changed_since(added.what)) make_ready(id);
  wake();
  return handle;
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
  bool wide = false;
  for (const Range& range : armed.what.ranges) {
    if (is_one_key(range)) {
      by_key_[range.from].push_back(armed.id);
    } else {
      wide = true;
    }
  }
  if (wide) wide_.insert(armed.id);
  if (armed.what.until) timers_.emplace(*armed.what.until, armed.id);
  if (!armed.what.session.empty()) {
    Watched& watched = by_session_[armed.what.session];
    watched.ids.push_back(armed.id);
    watched.look_at = 0;
  }
}

void Watches::unlink(const Armed& armed) {
  for (const Range& range : armed.what.ranges) {
    const auto at = by_key_.find(range.from);
    if (at == by_key_.end()) continue;
    drop(at->second, armed.id);
    if (at->second.empty()) by_key_.erase(at);
  }
  wide_.erase(armed.id);
  if (armed.what.until) {
    const auto [begin, end] = timers_.equal_range(*armed.what.until);
    const auto at =
        std::find_if(begin, end, [&](const auto& one) { return one.second == armed.id; });
    if (at != end) timers_.erase(at);
  }
  if (const auto at = by_session_.find(armed.what.session); at != by_session_.end()) {
    drop(at->second.ids, armed.id);
    if (at->second.ids.empty()) by_session_.erase(at);
  }
}

void Watches::make_ready(std::uint64_t id) {
  const auto at = armed_.find(id);
  if (at == armed_.end()) return;
  unlink(*at->second);
  ready_.push_back(std::move(at->second));
  armed_.erase(at);
}

void Watches::make_ready(const Ids& ids) {
  for (const std::uint64_t id : Ids{ids}) make_ready(id);
}

// Of what is known.
bool Watches::changed_since(const WatchFor& what) const {
  if (what.ranges.empty()) return false;
  if (!known_from_ || what.after < *known_from_) return true;
  const auto first = std::ranges::upper_bound(recent_, what.after, {}, &Change::revision);
  return std::any_of(first, recent_.end(), [&](const Change& change) {
    return change.anything || touches(what.ranges, change.keys);
  });
}

void Watches::changed(const Change& change) {
  Ids due;
  const auto consider = [&](std::uint64_t id) TENURE_REQUIRES(mutex_) {
    const WatchFor& what = armed_.at(id)->what;
    if (what.after < change.revision && !what.ranges.empty() &&
        (change.anything || touches(what.ranges, change.keys))) {
      due.push_back(id);
    }
  };
  if (change.anything) {
    for (const auto& [id, armed] : armed_) consider(id);
    for (auto& [session, watched] : by_session_) watched.look_at = 0;
  }
  for (const std::string& key : change.keys) {
    if (const auto at = by_key_.find(key); at != by_key_.end()) {
      for (const std::uint64_t id : at->second) consider(id);
    }
    if (!key.starts_with(session_prefix)) continue;
    const auto at = by_session_.find(std::string_view{key}.substr(session_prefix.size()));
    if (at != by_session_.end()) at->second.look_at = 0;
  }
  for (const std::uint64_t id : wide_) consider(id);
  make_ready(due);
}

void Watches::tell_all() {
  Ids all;
  for (const auto& [id, armed] : armed_) {
    if (!armed->what.ranges.empty()) all.push_back(id);
  }
  make_ready(all);
  for (auto& [session, watched] : by_session_) watched.look_at = 0;
}

void Watches::wrote(const Txn& txn, Revision revision) {
  const Lock lock{mutex_};
  if (armed_.empty()) return;
  Change change;
  change.revision = revision;
  for (const Write& write : txn.writes) {
    change.keys.push_back(write.kind == Write::Kind::append ? write.key + stamp(revision)
                                                            : write.key);
  }
  changed(change);
  wake();
}

// Sessions are told of by the change of their entry.
bool Watches::wanted() const { return !by_key_.empty() || !wide_.empty() || !by_session_.empty(); }

void Watches::wake() const noexcept {
  const std::uint64_t one = 1;
  std::ignore = ::write(bell_, &one, sizeof one);
}

std::string Watches::state() {
  const Lock lock{mutex_};
  if (engine_->pooled())
    return "polling once a second, because a pooler does not pass notifications on";
  return known_from_ ? "LISTEN" : "LISTEN, as soon as there is a watch";
}

void Watches::stop() {
  std::unordered_map<std::uint64_t, std::unique_ptr<Armed>> armed;
  std::deque<std::unique_ptr<Armed>> ready;
  std::thread service;
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
  }
  if (!service.joinable()) return;
  wake();
  if (service.get_id() == std::this_thread::get_id()) {
    service.detach();
  } else {
    service.join();
  }
}

}  // namespace tenure::postgres
