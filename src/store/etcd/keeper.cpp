#include "store/etcd/keeper.hpp"

#include <sys/random.h>

#include <algorithm>
#include <system_error>
#include <utility>

#include "store/threads.hpp"

namespace tenure::etcd {
namespace {

using namespace std::chrono_literals;

constexpr std::chrono::seconds min_ttl = 2s;  // etcd's own, as it is configured out of the box.
constexpr std::chrono::seconds max_ttl = 24h;
constexpr std::int64_t renewals_a_ttl = 5;
constexpr auto renew_retry_time = 100ms;
// Steady clocks stand still while the machine sleeps, and a lease does not.
constexpr std::chrono::nanoseconds longest_nap = 500ms;
constexpr std::chrono::nanoseconds longest_try = 2s;

std::uint64_t random_number() {
  std::uint64_t number = 0;
  while (::getrandom(&number, sizeof number, 0) != static_cast<ssize_t>(sizeof number)) {
  }
  return number;
}

std::int64_t ns(std::chrono::nanoseconds time) noexcept { return time.count(); }

}  // namespace

void Lease::renewed(std::int64_t sent_ns) noexcept {
  const std::int64_t whole = ns(ttl);
  trusted_until.store(sent_ns + whole - (whole / 3));
  // Spread, so that many clients that began together do not come together for ever.
  const std::int64_t spread = static_cast<std::int64_t>(random_number() % 1024) - 512;
  const std::int64_t pause = whole / renewals_a_ttl;
  renew_at.store(sent_ns + pause + (pause / 8 * spread / 512));
}

void Lease::lose() noexcept {
  if (is_lost.exchange(true)) return;
  // Callbacks are the program's own code, and may take long: on a thread of their own.
  try {
    stores::quiet_thread([source = lost]() mutable { source.request_stop(); }).detach();
  } catch (const std::system_error&) {
    lost.request_stop();  // No thread can be started: late notice is worse than a slow callback.
  }
}

bool Lease::check() {
  if (!is_lost.load() && boot_clock_ns() < trusted_until.load()) return true;
  lose();
  while (!lost.stop_requested()) std::this_thread::yield();
  return false;
}

std::shared_ptr<Lease> Keeper::open(std::chrono::milliseconds ttl) {
  {
    // First: a lease that no thread can renew is not granted.
    const base::Mutex::Scoped lock{mutex_};
    start();
  }
  auto lease = std::make_shared<Lease>();
  lease->id = static_cast<std::int64_t>(random_number() >> 1U | 1U);
  const auto asked = std::clamp(std::chrono::ceil<std::chrono::seconds>(ttl), min_ttl, max_ttl);
  const std::int64_t sent = boot_clock_ns();
  lease->ttl = engine_->client().grant(lease->id, asked);
  lease->renewed(sent);
  const base::Mutex::Scoped lock{mutex_};
  leases_.push_back(lease);
  changed_.notify_all();
  return lease;
}

void Keeper::end(const std::shared_ptr<Lease>& lease) noexcept {
  {
    const base::Mutex::Scoped lock{mutex_};
    std::erase(leases_, lease);
  }
  try {
    engine_->client().revoke(lease->id);
  } catch (const Error&) {  // NOLINT(bugprone-empty-catch)
    // It ends by itself.
  }
}

std::vector<std::shared_ptr<Lease>> Keeper::leases() {
  const base::Mutex::Scoped lock{mutex_};
  return leases_;
}

void Keeper::start() {
  if (stopping_) return;
  // Each on its own: the last attempt may have got one thread and not the other.
  if (!renewer_.joinable()) {
    renewer_ = stores::quiet_thread([self = shared_from_this()] { self->renew_all(); });
  }
  if (!watchdog_.joinable()) {
    watchdog_ = stores::quiet_thread([self = shared_from_this()] { self->watch_all(); });
  }
}

void Keeper::renew(Lease& lease) {
  const std::int64_t sent = boot_clock_ns();
  const std::chrono::nanoseconds left{lease.trusted_until.load() - sent};
  // A part of the time that is left: there are other endpoints to be asked.
  const auto limit = std::chrono::ceil<std::chrono::milliseconds>(
      std::clamp<std::chrono::nanoseconds>(left / 3, 1ms, longest_try));
  try {
    const auto ttl = engine_->client().keep_alive(lease.id, engine_->layout().head(), limit);
    if (ttl.count() <= 0) {
      lease.lose();
    } else {
      lease.renewed(sent);
    }
  } catch (const Error&) {
    lease.renew_at.store(boot_clock_ns() + ns(renew_retry_time));
  }
}

void Keeper::renew_all() {
  for (;;) {
    for (const auto& lease : leases()) {
      if (!lease->is_lost.load() && lease->renew_at.load() <= boot_clock_ns()) renew(*lease);
    }
    const base::Mutex::Scoped lock{mutex_};
    if (stopping_) return;
    std::chrono::nanoseconds nap = longest_nap;
    for (const auto& lease : leases_) {
      if (lease->is_lost.load()) continue;
      nap = std::min(nap, std::chrono::nanoseconds{lease->renew_at.load() - boot_clock_ns()});
    }
    if (nap.count() <= 0) continue;
    if (leases_.empty()) {
      changed_.wait(mutex_);
    } else {
      changed_.wait_for(mutex_, nap);
    }
  }
}

// Apart from renewing, which may be waiting for an answer.
void Keeper::watch_all() {
  for (;;) {
    for (const auto& lease : leases()) static_cast<void>(lease->check());
    const base::Mutex::Scoped lock{mutex_};
    if (stopping_) return;
    std::chrono::nanoseconds nap = longest_nap;
    for (const auto& lease : leases_) {
      if (lease->is_lost.load()) continue;
      nap = std::min(nap, std::chrono::nanoseconds{lease->trusted_until.load() - boot_clock_ns()});
    }
    if (nap.count() <= 0) continue;
    if (leases_.empty()) {
      changed_.wait(mutex_);
    } else {
      changed_.wait_for(mutex_, nap);
    }
  }
}

void Keeper::stop() {
  std::thread renewer;
  std::thread watchdog;
  {
    const base::Mutex::Scoped lock{mutex_};
    stopping_ = true;
    renewer = std::move(renewer_);
    watchdog = std::move(watchdog_);
    changed_.notify_all();
  }
  if (renewer.joinable()) renewer.join();
  if (watchdog.joinable()) watchdog.join();
}

}  // namespace tenure::etcd
