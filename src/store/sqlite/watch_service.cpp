// The thread of Watches: sleeps on this process's doorbell, and calls notices.
#include <fcntl.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <ctime>
#include <utility>

#include "store/sqlite/watches.hpp"
#include "store/threads.hpp"
#include "tenure/detail/saturating.hpp"

namespace tenure::sqlite {
namespace {

constexpr std::int64_t second_ns = 1'000'000'000;

Byte slot_byte(std::size_t slot) noexcept {
  return Byte{first_slot_byte + static_cast<std::int64_t>(slot)};
}

// Shared: other processes ring. For at most so long; negative: for ever.
void sleep_on(Doorbell& bell, std::uint32_t seen, std::int64_t nap_ns) noexcept {
  const timespec nap{.tv_sec = nap_ns / second_ns, .tv_nsec = nap_ns % second_ns};
  bell.sleepers.fetch_add(1);
  ::syscall(SYS_futex, &bell.word, FUTEX_WAIT, seen, nap_ns < 0 ? nullptr : &nap, nullptr, 0);
  bell.sleepers.fetch_sub(1);
}

}  // namespace

void Watches::take_slot() {
  const SideFile& side = engine_->side();
  for (std::size_t slot = 0; slot < doorbells; ++slot) {
    if (lock_byte(side.probe()->get(), LockType::write, slot_byte(slot), false) != 0) continue;
    slot_ = slot;
    side.doorbell(slot).sleepers.store(0);  // Whoever had it may have died asleep.
    return;
  }
  slot_ = random_number() % doorbells;
  slot_shared_ = true;
}

void Watches::start() {
  if (service_.joinable() || stopping_) return;
  take_slot();
  service_ = stores::quiet_thread([self = shared_from_this()] { self->serve(); });
  if (slot_shared_) return;  // A ring may be for another process too.
  engine_->own_doorbell(slot_, [weak = weak_from_this()](std::size_t bucket) {
    if (const auto self = weak.lock()) self->rung_here(bucket);
  });
}

void Watches::wake() noexcept { ring_doorbell(engine_->side().doorbell(slot_), 0); }

void Watches::serve() {
  Doorbell& bell = engine_->side().doorbell(slot_);
  Lock lock{mutex_};
  service_id_ = std::this_thread::get_id();
  while (!stopping_) {
    const std::uint32_t seen = bell.word.load();
    const std::uint64_t summary = bell.summary.exchange(0);
    look(slot_shared_ ? ~std::uint64_t{0} : summary);
    look_at_timers();
    if (boot_clock_ns() >= next_check_) check_all();
    if (!ready_.empty()) {
      run_ready();
      continue;
    }
    const std::int64_t nap = nap_ns();
    lock.unlock();
    sleep_on(bell, seen, nap);
    lock.lock();
  }
  lock.unlock();
  unlock_byte(engine_->side().probe()->get(), slot_byte(slot_));
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

void Watches::look(std::uint64_t summary) {
  Ids found;
  for (; summary != 0; summary &= summary - 1) {
    for (const auto& [bucket, ids] : by_bucket_[static_cast<unsigned>(std::countr_zero(summary))]) {
      look_at(bucket, ids, found);
    }
  }
  for (const std::uint64_t id : found) make_ready(id);
}

void Watches::look_at(std::uint32_t bucket, const Ids& ids, Ids& found) {
  arm_bucket(bucket);
  for (const std::uint64_t id : ids) {
    if (due(*armed_.at(id))) found.push_back(id);
  }
}

void Watches::rung_here(std::size_t bucket) noexcept {
  {
    const Lock lock{mutex_};
    const auto& group = by_bucket_[bucket % 64];
    const auto at = group.find(static_cast<std::uint32_t>(bucket));
    if (at == group.end()) return;
    Ids found;
    look_at(at->first, at->second, found);
    if (found.empty()) return;
    for (const std::uint64_t id : found) make_ready(id);
  }
  wake();
}

void Watches::look_at_timers() {
  if (timers_.empty()) return;
  const Instant now = engine_->now();
  while (!timers_.empty() && timers_.begin()->first <= now) make_ready(timers_.begin()->second);
}

// Without being rung: a writer may have died between its commit and the bell.
void Watches::check_all() {
  next_check_ = boot_clock_ns() + second_ns;
  std::erase_if(observed_, [](const auto& one) { return one.expired(); });
  const bool idle = armed_.empty() && observed_.empty();
  idle_checks_ = idle ? idle_checks_ + 1 : 0;
  if (idle) return;
  if (!lost_ && !engine_->intact()) declare_lost();
  Ids found;
  const SideFile& side = engine_->side();
  for (const auto& [id, armed] : armed_) {
    bool ready = lost_ || due(*armed);
    for (const std::uint32_t bucket : armed->buckets) {
      arm_bucket(bucket);
      const std::uint64_t revision = side.bucket(bucket).revision.load();
      if (revision <= armed->what.after.value) continue;
      // A commit takes no second, so whoever was to settle this is dead.
      ready = ready || armed->unsettled == revision;
      armed->unsettled = revision;
    }
    if (ready) found.push_back(id);
  }
  for (const auto& [session, ids] : by_session_) {
    const auto byte = session_byte(session);
    if (byte && write_locked(side.probe()->get(), *byte)) continue;
    found.insert(found.end(), ids.begin(), ids.end());
  }
  for (const std::uint64_t id : found) make_ready(id);
}

// Stop callbacks are the program's own code: they get a thread, and hold up nobody's notices.
void Watches::declare_lost() {
  lost_ = true;
  std::vector<std::shared_ptr<std::stop_source>> lost;
  for (const auto& one : observed_) {
    if (auto source = one.lock()) lost.push_back(std::move(source));
  }
  observed_.clear();
  if (lost.empty()) return;
  stores::quiet_thread([lost = std::move(lost)] {
    for (const auto& source : lost) source->request_stop();
  }).detach();
}

std::int64_t Watches::nap_ns() {
  const Instant now = engine_->now();
  std::int64_t nap = next_check_ - boot_clock_ns();
  const bool deep = armed_.empty() && observed_.empty() && idle_checks_ > max_idle_checks;
  if (deep) {
    planned_ = Instant::max();
    return -1;
  }
  if (!timers_.empty()) {
    nap = std::min(nap, detail::saturating_sub(timers_.begin()->first, now).count());
  }
  nap = std::max<std::int64_t>(nap, 0);
  planned_ = detail::saturating_add(now, std::chrono::nanoseconds{nap});
  return nap;
}

}  // namespace tenure::sqlite
