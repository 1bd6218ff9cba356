// The service thread of Watches: sleeps on the doorbell of this process, and calls notices.
#include <fcntl.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <ctime>
#include <system_error>
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

// A shared futex: other processes ring. Sleeps for at most `nap_ns`; negative: until rung.
void sleep_on(Doorbell& bell, std::uint32_t seen, std::int64_t nap_ns) noexcept {
  const timespec nap{.tv_sec = nap_ns / second_ns, .tv_nsec = nap_ns % second_ns};
  bell.sleepers.fetch_add(1);
  ::syscall(SYS_futex, &bell.word, FUTEX_WAIT, seen, nap_ns < 0 ? nullptr : &nap, nullptr, 0);
  bell.sleepers.fetch_sub(1);
}

}  // namespace

void Watches::take_slot() {
  const SideFile& side = executor_->side();
  for (std::size_t slot = 0; slot < doorbells; ++slot) {
    if (lock_byte(side.probe()->get(), LockType::write, slot_byte(slot), false) != 0) continue;
    slot_ = slot;
    side.doorbell(slot).sleepers.store(0);  // Its last owner may have died asleep.
    return;
  }
  slot_ = random_number() % doorbells;
  slot_shared_ = true;
}

void Watches::start() {
  if (service_.started() || stopping_) return;
  take_slot();
  service_.start([self = shared_from_this()] { self->serve(); });
  if (slot_shared_) return;  // A ring may have been for another process too.
  executor_->own_doorbell(slot_, [weak = weak_from_this()](std::size_t bucket) {
    if (const auto self = weak.lock()) self->rung_here(bucket);
  });
}

void Watches::wake() noexcept { ring_doorbell(executor_->side().doorbell(slot_), 0); }

void Watches::serve() {
  Doorbell& bell = executor_->side().doorbell(slot_);
  Lock lock{table_.mutex};
  while (!stopping_) {
    const std::uint32_t seen = bell.word.load();
    const std::uint64_t summary = bell.summary.exchange(0);
    rung_for(slot_shared_ ? ~std::uint64_t{0} : summary);
    if (table_.next_time()) table_.reached(executor_->now());
    if (boot_ns() >= next_check_) check_all();
    if (table_.any_ready()) {
      table_.run_next();
      continue;
    }
    const std::int64_t nap = nap_ns();
    lock.unlock();
    sleep_on(bell, seen, nap);
    lock.lock();
  }
  lock.unlock();
  unlock_byte(executor_->side().probe()->get(), slot_byte(slot_));
}

void Watches::rung_for(std::uint64_t summary) {
  if (summary == 0) return;
  for (; summary != 0; summary &= summary - 1) {
    const auto group = static_cast<std::size_t>(std::countr_zero(summary));
    for (const auto& [bucket, count] : watched_[group]) arm_bucket(bucket);
  }
  read_log();
}

void Watches::rung_here(std::size_t bucket) noexcept {
  {
    const Lock lock{table_.mutex};
    if (!watched_[bucket % 64].contains(static_cast<std::uint32_t>(bucket))) return;
    arm_bucket(bucket);
    read_log();
    if (!table_.any_ready()) return;
  }
  wake();
}

void Watches::read_log() {
  const SideFile& side = executor_->side();
  const WriteLog& log = side.log();
  // In this order: by then the log has every revision up to `decided`.
  const std::uint64_t decided = side.header().decided.load();
  const std::uint64_t count = log.count();
  const bool doubted = doubted_ > seen_;
  bool complete = true;
  for (; log_read_ < count; ++log_read_) {
    if (!log.read(log_read_, log_entry_)) {
      // Overwritten: go on from the middle of the ring, which is safe for a while.
      complete = false;
      log_read_ = std::max(log_read_, log.count() - (WriteLog::slots / 2)) - 1;
      continue;
    }
    const auto& [revision, key, whole] = log_entry_;
    if (revision > decided) break;
    complete = complete && whole && revision <= seen_ + 1;
    seen_ = std::max(seen_, revision);
    if (whole) table_.changed(key, Revision{revision});
  }
  complete = complete && decided <= seen_;
  seen_ = std::max(seen_, decided);
  if (!complete) doubted_ = side.header().last.load();
  if (!complete || doubted) {
    table_.due_if([&](const WatchFor& what) { return written_in_buckets(what, 0, decided); });
  }
}

// Checks without being rung: a writer may have died between its commit and its ring.
void Watches::check_all() {
  next_check_ = boot_ns() + check_every_.count();
  std::erase_if(observed_, [](const auto& one) { return one.expired(); });
  const bool idle = !table_.any_armed() && observed_.empty();
  idle_checks_ = idle ? idle_checks_ + 1 : 0;
  if (idle) return;
  if (!lost_ && !executor_->intact()) declare_lost();
  if (lost_) table_.all_due();
  for (const auto& group : watched_) {
    for (const auto& [bucket, count] : group) arm_bucket(bucket);
  }
  read_log();
  check_undecided();
  for (const std::string& session : table_.sessions()) {
    const auto byte = session_byte(session);
    if (!byte || !write_locked(executor_->side().probe()->get(), *byte)) table_.died(session);
  }
}

// The writers of revisions that were already undecided at the last check are dead, or their disk is
// slow. If such a writer has committed, no other process may ever raise `decided` past its
// revision.
void Watches::check_undecided() {
  const SideFile& side = executor_->side();
  const std::uint64_t last = side.header().last.load();
  const std::uint64_t suspect = std::exchange(undecided_, last);
  const std::uint64_t decided = side.header().decided.load();
  if (suspect <= decided) return;
  table_.due_if([&](const WatchFor& what) { return written_in_buckets(what, decided, suspect); });
}

// Stop callbacks are code of the program: they run on a thread of their own and do not delay
// notices.
void Watches::declare_lost() {
  lost_ = true;
  std::vector<std::shared_ptr<std::stop_source>> lost;
  for (const auto& one : observed_) {
    if (auto source = one.lock()) lost.push_back(std::move(source));
  }
  observed_.clear();
  if (lost.empty()) return;
  const auto tell = [lost = std::move(lost)] {
    for (const auto& source : lost) source->request_stop();
  };
  try {
    lost_threads_.run(tell);
  } catch (const std::system_error&) {  // No thread can be started: run them here.
    table_.mutex.unlock();
    tell();
    table_.mutex.lock();
  }
}

std::int64_t Watches::nap_ns() {
  const Instant now = executor_->now();
  std::int64_t nap = next_check_ - boot_ns();
  const bool deep = !table_.any_armed() && observed_.empty() && idle_checks_ > max_idle_checks;
  if (deep) {
    planned_ = Instant::max();
    return -1;
  }
  if (const auto first = table_.next_time()) {
    nap = std::min(nap, detail::saturating_sub(*first, now).count());
  }
  nap = std::max<std::int64_t>(nap, 0);
  planned_ = detail::saturating_add(now, std::chrono::nanoseconds{nap});
  return nap;
}

}  // namespace tenure::sqlite
