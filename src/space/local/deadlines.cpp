#include "space/local/deadlines.hpp"

#include <algorithm>
#include <utility>

#include "tenure/detail/saturating.hpp"

namespace tenure::local {
namespace {

using namespace std::chrono_literals;

// Goes on while the wall clock is set; disguised as the type that timers have.
Instant steady_now() { return Instant{std::chrono::steady_clock::now().time_since_epoch()}; }

}  // namespace

Deadlines::Deadlines(Due tell, Due end)
    : tell_(std::move(tell)), end_(std::move(end)), timers_(steady_now) {}

// As in a stored space.
Instant Deadlines::Deadline::tell_at() const {
  return detail::saturating_sub(at, std::min<std::chrono::nanoseconds>(1s, max_hold / 3));
}

void Deadlines::prepare() {
  timers_.set(0, Instant::max(), [] {});
  timers_.cancel(0);
}

void Deadlines::start(std::uint64_t ticket, std::chrono::nanoseconds max_hold) {
  Instant next;
  {
    const base::Mutex::Scoped lock{mutex_};
    Deadline& own = deadlines_[ticket];
    own = {.at = detail::saturating_add(steady_now(), max_hold), .max_hold = max_hold};
    next = own.tell_at();
  }
  set_timer(ticket, next);
}

bool Deadlines::renew(std::uint64_t ticket, std::chrono::nanoseconds max_hold) {
  {
    const base::Mutex::Scoped lock{mutex_};
    const auto own = deadlines_.find(ticket);
    if (own == deadlines_.end() || own->second.at <= steady_now()) return false;
    if (max_hold.count() == 0) max_hold = own->second.max_hold;
  }
  start(ticket, max_hold);
  return true;
}

void Deadlines::cancel(std::uint64_t ticket) noexcept {
  {
    const base::Mutex::Scoped lock{mutex_};
    deadlines_.erase(ticket);
  }
  timers_.cancel(ticket);
}

bool Deadlines::is_due(std::uint64_t ticket) {
  const base::Mutex::Scoped lock{mutex_};
  const auto own = deadlines_.find(ticket);
  return own != deadlines_.end() && own->second.tell_at() <= steady_now();
}

std::optional<Instant> Deadlines::at(std::uint64_t ticket) {
  const base::Mutex::Scoped lock{mutex_};
  const auto own = deadlines_.find(ticket);
  if (own == deadlines_.end()) return std::nullopt;
  return detail::saturating_add(Instant{std::chrono::system_clock::now()},
                                detail::saturating_sub(own->second.at, steady_now()));
}

void Deadlines::set_timer(std::uint64_t ticket, Instant at) {
  timers_.set(ticket, at, [this, ticket] { on_timer(ticket); });
}

void Deadlines::on_timer(std::uint64_t ticket) {
  const Due* due = nullptr;
  std::optional<Instant> next;
  {
    const base::Mutex::Scoped lock{mutex_};
    const auto own = deadlines_.find(ticket);
    if (own == deadlines_.end()) return;
    Deadline& deadline = own->second;
    const Instant now = steady_now();
    if (now >= deadline.at) {
      due = &end_;
      deadlines_.erase(own);
    } else if (now >= deadline.tell_at()) {
      if (!std::exchange(deadline.told, true)) due = &tell_;
      next = deadline.at;
    } else {
      next = deadline.tell_at();  // It was renewed meanwhile.
    }
  }
  if (next.has_value()) set_timer(ticket, *next);
  if (due == nullptr) return;
  try {
    callers_.run([call = *due, ticket] { call(ticket); });
  } catch (...) {
    (*due)(ticket);  // No thread can be started: here, late rather than never.
  }
}

}  // namespace tenure::local
