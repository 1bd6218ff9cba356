#include "store/sqlite/watches.hpp"

#include <algorithm>
#include <utility>

#include "store/threads.hpp"

namespace tenure::sqlite {
namespace {

// A range over more first bytes than this hangs on the bucket of all keys.
constexpr std::size_t most_families = 8;

std::vector<std::uint32_t> buckets_of(const std::vector<Range>& ranges) {
  std::vector<std::uint32_t> found;
  const auto add = [&found](std::size_t bucket) {
    found.push_back(static_cast<std::uint32_t>(bucket));
  };
  for (const Range& range : ranges) {
    const bool one_key = range.to.size() == range.from.size() + 1 && range.to.back() == '\0' &&
                         range.to.starts_with(range.from);
    const std::size_t first = family_of(range.from);
    // A single byte is an end that its own family does not reach into.
    const std::size_t last =
        range.to.empty() ? every_key - 1 : family_of(range.to) - (range.to.size() == 1 ? 1 : 0);
    if (one_key) {
      add(bucket_of(range.from));
    } else if (!range.to.empty() && range.to <= range.from) {
      continue;  // Nothing is in it.
    } else if (last - first >= most_families) {
      add(every_key);
    } else {
      for (std::size_t family = first; family <= last; ++family) add(family);
    }
  }
  std::ranges::sort(found);
  const auto again = std::ranges::unique(found);
  found.erase(again.begin(), again.end());
  return found;
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
    if (generation_ == fork_generation()) watches_->remove(id_);
  }

 private:
  const std::shared_ptr<Store> keep_;
  const std::shared_ptr<Watches> watches_;
  const std::uint64_t id_;
  const unsigned generation_ = fork_generation();
};

std::unique_ptr<Watch> Watches::add(WatchFor what, Store::Notice notice,
                                    std::shared_ptr<Store> keep) {
  auto armed = std::make_unique<Armed>();
  armed->what = std::move(what);
  armed->notice = std::move(notice);
  armed->buckets = buckets_of(armed->what.ranges);
  const Lock lock{mutex_};
  start();
  const std::uint64_t id = ++last_id_;
  armed->id = id;
  auto handle = std::make_unique<Handle>(shared_from_this(), id, std::move(keep));
  Armed& added = *armed_.emplace(id, std::move(armed)).first->second;
  link(added);
  for (const std::uint32_t bucket : added.buckets) arm_bucket(bucket);
  const bool now = lost_ || due(added) || (added.what.until && *added.what.until <= engine_->now());
  bool must_wake = now || idle_checks_ > max_idle_checks;
  if (!now && added.what.until && *added.what.until < planned_) must_wake = true;
  idle_checks_ = 0;
  if (now) {
    make_ready(id);
  } else if (!added.what.session.empty()) {
    await_death(added.what.session);
    must_wake = must_wake || !ready_.empty();
  }
  if (must_wake) wake();
  return handle;
}

void Watches::observe(std::weak_ptr<std::stop_source> lost) {
  const Lock lock{mutex_};
  std::erase_if(observed_, [](const auto& one) { return one.expired(); });
  observed_.push_back(std::move(lost));
  start();
  if (lost_) declare_lost();
  if (std::exchange(idle_checks_, 0) > max_idle_checks) wake();
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

void Watches::link(Armed& armed) {
  for (const std::uint32_t bucket : armed.buckets) {
    by_bucket_[bucket % 64][bucket].push_back(armed.id);
  }
  if (armed.what.until) timers_.emplace(*armed.what.until, armed.id);
  if (!armed.what.session.empty()) by_session_[armed.what.session].push_back(armed.id);
}

void Watches::unlink(const Armed& armed) {
  for (const std::uint32_t bucket : armed.buckets) {
    auto& group = by_bucket_[bucket % 64];
    const auto at = group.find(bucket);
    drop(at->second, armed.id);
    if (at->second.empty()) group.erase(at);
  }
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

void Watches::arm_bucket(std::size_t bucket) const noexcept {
  engine_->side().bucket(bucket).bits.fetch_or(std::uint64_t{1} << slot_ % 64);
}

// After its bits are set, or a commit in between would not ring.
bool Watches::due(const Armed& armed) const noexcept {
  const SideFile& side = engine_->side();
  return std::ranges::any_of(armed.buckets, [&](std::uint32_t bucket) {
    const std::uint64_t revision = side.bucket(bucket).revision.load();
    return revision > armed.what.after.value && revision <= side.header().settled.load();
  });
}

void Watches::await_death(const std::string& session) {
  const auto byte = session_byte(session);
  const std::shared_ptr<Descriptor>& probe = engine_->side().probe();
  if (!byte || !write_locked(probe->get(), *byte)) {
    const Ids ids = by_session_[session];
    for (const std::uint64_t id : ids) make_ready(id);
    return;
  }
  if (!awaited_.insert(session).second) return;
  try {
    stores::quiet_thread([weak = weak_from_this(), probe, session, byte = *byte] {
      // On an error the check of once a second remains.
      if (lock_byte(probe->get(), LockType::read, byte, true) != 0) return;
      unlock_byte(probe->get(), byte);
      if (const auto self = weak.lock()) self->session_ended(session);
    }).detach();
  } catch (const std::system_error&) {
    awaited_.erase(session);
  }
}

void Watches::session_ended(const std::string& session) {
  {
    const Lock lock{mutex_};
    awaited_.erase(session);
    const auto at = by_session_.find(session);
    if (at == by_session_.end() || stopping_) return;
    const Ids ids = at->second;
    for (const std::uint64_t id : ids) make_ready(id);
  }
  wake();
}

void Watches::stop() {
  std::unordered_map<std::uint64_t, std::unique_ptr<Armed>> armed;
  std::deque<std::unique_ptr<Armed>> ready;
  std::thread service;
  {
    const Lock lock{mutex_};
    stopping_ = true;
    for (auto& group : by_bucket_) group.clear();
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

}  // namespace tenure::sqlite
