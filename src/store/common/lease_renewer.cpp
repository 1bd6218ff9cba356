#include "store/common/lease_renewer.hpp"

#include <algorithm>
#include <random>
#include <thread>

#include "base/boot_clock.hpp"
#include "tenure/error.hpp"

namespace tenure::stores {
namespace {

using namespace std::chrono_literals;
using base::boot_ns;

// Condition variables do not count time while the machine sleeps, but a lease does.
constexpr std::chrono::nanoseconds longest_nap = 500ms;
constexpr std::chrono::milliseconds shortest_retry = 10ms;
constexpr int retries_per_ttl = 40;

std::int64_t ns(std::chrono::nanoseconds time) noexcept { return time.count(); }

double random_share(double from, double to) {
  thread_local std::mt19937_64 random{std::random_device{}()};
  return std::uniform_real_distribution{from, to}(random);
}

}  // namespace

void Lease::renewed(std::int64_t sent) noexcept {
  const std::int64_t whole = ns(ttl);
  trusted_until.store(sent + whole - (whole / 3));
}

void Lease::lose() noexcept {
  if (is_lost.exchange(true)) return;
  // Callbacks are code of the program and may take long: they run on a thread of their own.
  try {
    lost_threads->run([source = lost]() mutable { source.request_stop(); });
  } catch (...) {
    lost.request_stop();  // No thread can be started: a late notice is worse than a slow callback.
  }
}

// Reads the clock here: the watchdog may have slept with the machine.
bool Lease::check() {
  if (!is_lost.load() && boot_ns() < trusted_until.load()) return true;
  lose();
  while (!lost.stop_requested()) std::this_thread::yield();
  return false;
}

void LeaseRenewer::plan_renewal(Lease& lease, std::int64_t sent) const {
  const double share = random_share(timing_.earliest, timing_.latest);
  lease.renew_at.store(sent +
                       static_cast<std::int64_t>(static_cast<double>(ns(lease.ttl)) * share));
}

void LeaseRenewer::start() {
  const base::Mutex::Scoped lock{mutex_};
  if (stopping_) return;
  // Each thread by itself: an earlier call may have started only one of them.
  renewer_.start([self = shared_from_this()] {
    self->serve(&Lease::renew_at, [&](Lease& lease) { self->try_renew(lease); });
  });
  watchdog_.start([self = shared_from_this()] {
    self->serve(&Lease::trusted_until, [](Lease& lease) { lease.check(); });
  });
}

std::shared_ptr<Lease> LeaseRenewer::add(std::string session, std::chrono::milliseconds ttl,
                                         std::int64_t sent) {
  auto lease = std::make_shared<Lease>();
  lease->session = std::move(session);
  lease->ttl = ttl;
  lease->renewed(sent);
  lease->lost_threads = lost_threads_;
  plan_renewal(*lease, sent);
  const base::Mutex::Scoped lock{mutex_};
  leases_.push_back(lease);
  changed_.notify_all();
  return lease;
}

void LeaseRenewer::remove(const std::shared_ptr<Lease>& lease) noexcept {
  const base::Mutex::Scoped lock{mutex_};
  std::erase(leases_, lease);
}

void LeaseRenewer::try_renew(Lease& lease) {
  const std::int64_t sent = boot_ns();
  try {
    const std::chrono::milliseconds ttl = renew_(lease);
    if (ttl.count() <= 0) {
      lease.lose();
    } else {
      lease.renewed(sent);
      plan_renewal(lease, sent);
    }
  } catch (...) {
    lease.renew_at.store(
        boot_ns() + ns(std::clamp(lease.ttl / retries_per_ttl, shortest_retry, timing_.retry)));
  }
}

template <typename Act>
void LeaseRenewer::serve(Due due, const Act& act) {
  base::Mutex::Scoped lock{mutex_};
  while (!stopping_) {
    std::erase_if(leases_, [](const auto& lease) { return lease->is_lost.load(); });
    const auto next = std::ranges::min_element(
        leases_, {}, [due](const auto& lease) { return ((*lease).*due).load(); });
    if (next == leases_.end()) {
      changed_.wait(mutex_);
      continue;
    }
    // The list may change while the mutex is free.
    // NOLINTNEXTLINE(performance-unnecessary-copy-initialization)
    const std::shared_ptr<Lease> lease = *next;
    const std::chrono::nanoseconds nap{((*lease).*due).load() - boot_ns()};
    if (nap.count() > 0) {
      changed_.wait_for(mutex_, std::min(nap, longest_nap));
      continue;
    }
    lock.unlock();
    act(*lease);
    lock.lock();
  }
}

void LeaseRenewer::stop() {
  {
    const base::Mutex::Scoped lock{mutex_};
    stopping_ = true;
    changed_.notify_all();
  }
  renewer_.end();
  watchdog_.end();
  lost_threads_->wait();
}

}  // namespace tenure::stores
