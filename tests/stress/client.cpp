#include "tests/stress/client.hpp"

#include <algorithm>
#include <array>
#include <condition_variable>
#include <functional>
#include <thread>
#include <utility>

#include "tenure/error.hpp"

namespace tenure::stress {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t deepest = 3;  // Holds of one owner at once.
constexpr std::array way_names = {"lock", "lock-stop", "try_lock", "try_lock_for",
                                  "try_lock_for-stop"};

std::chrono::microseconds some(Random& random, std::chrono::microseconds most) {
  return std::chrono::microseconds{below(random, static_cast<std::uint64_t>(most.count()) + 1)};
}

}  // namespace

Client::Client(const Setup& setup, unsigned thread, std::string owner, std::uint64_t seed)
    : Recorder(setup.log, setup.grants, thread, seed),
      setup_(setup),
      owner_(setup.space.as(owner)) {}

void Client::round() {
  const bool as_owner = one_in(random_, 3);
  ask(as_owner ? owner_ : static_cast<const Locker&>(setup_.space), as_owner, 0);
}

Client::Ask Client::random_ask() {
  Ask ask;
  ask.number = ++requests_;
  ask.claims = random_claims(random_);
  const std::uint64_t way = below(random_, 20);
  if (way < 7) {
    ask.way = Way::lock;
  } else if (way < 10) {
    ask.way = Way::lock_stop;
  } else if (way < 13) {
    ask.way = Way::try_lock;
  } else {
    ask.way = way < 17 ? Way::try_lock_for : Way::try_lock_for_stop;
  }
  if (one_in(random_, 8)) ask.max_hold = 1ms + some(random_, one_in(random_, 2) ? 5ms : 60ms);
  return ask;
}

void Client::ask(const Locker& locker, bool as_owner, std::size_t held) {
  const Ask ask = random_ask();
  const std::stop_token stop = new_stop();
  write(ask.number, Event::Kind::asked, held, way_names.at(static_cast<std::size_t>(ask.way)),
        ask.claims, static_cast<std::uint64_t>(ask.max_hold.count()));
  std::optional<Hold> hold = get(locker, ask, stop);
  if (!hold.has_value()) return;
  write_grant(ask.number, *hold);
  // The hold ends when it is released, whether or not the callback ran: the callback ends before
  // that.
  std::optional<std::stop_callback<std::function<void()>>> on_lost;
  std::stop_token lost;
  if (ask.max_hold != 0ms || one_in(random_, 16)) {
    lost = hold->lost();
    on_lost.emplace(lost, [this, number = ask.number] { write(number, Event::Kind::lost); });
  }
  keep(*hold, ask);
  if (one_in(random_, 6)) *hold = hold_again(*std::move(hold));
  if (as_owner && held + 1 < deepest && one_in(random_, 2)) {
    this->ask(locker, as_owner, held + 1);
  }
  hold_for_a_while(ask, lost);
  on_lost.reset();
  static_cast<void>(give_back(ask.number, *std::move(hold), false));
}

std::optional<Hold> Client::get(const Locker& locker, const Ask& ask, const std::stop_token& stop) {
  std::string why;
  try {
    if (ask.max_hold == 0ms) {
      if (auto hold = call(locker, ask, stop)) return hold;
    } else if (auto hold = call(locker.max_hold(ask.max_hold), ask, stop)) {
      return hold;
    }
    why = ask.way == Way::try_lock ? "busy" : "gave-up";
  } catch (const Deadlock&) {
    why = "deadlock";
  } catch (const LimitMismatch&) {
    why = "mismatch";
  } catch (const Evicted&) {
    why = "evicted";
  } catch (const std::exception& error) {
    why = one_word(error.what());
  }
  write(ask.number, Event::Kind::refused, 0, why);
  return std::nullopt;
}

std::optional<Hold> Client::call(const Locker& locker, const Ask& ask,
                                 const std::stop_token& stop) {
  switch (ask.way) {
    case Way::lock: return locker.lock(ask.claims);
    case Way::lock_stop: return locker.lock(ask.claims, stop);
    case Way::try_lock: return locker.try_lock(ask.claims);
    case Way::try_lock_for: return locker.try_lock_for(ask.claims, some(random_, 20ms));
    case Way::try_lock_for_stop: return locker.try_lock_for(ask.claims, some(random_, 100ms), stop);
  }
  return std::nullopt;
}

void Client::keep(Hold& hold, const Ask& ask) {
  try {
    if (ask.max_hold != 0ms) {
      log_deadline(hold, ask);
      if (one_in(random_, 3) && hold.renew()) log_deadline(hold, ask);
    }
    if (one_in(random_, 8)) narrow(hold, ask);
  } catch (const Evicted&) {
    // Its time was over, or an operator evicted it, before it could be narrowed.
  } catch (const LimitMismatch&) {
    // The same, and others have agreed on another limit since.
    if (std::ranges::find(ask.claims, quarrel(), &Claim::path) == ask.claims.end()) throw;
  }
}

// On CLOCK_BOOTTIME, rather too early than too late.
void Client::log_deadline(const Hold& hold, const Ask& ask) {
  const std::optional<Instant> deadline = hold.deadline();
  if (!deadline.has_value()) return;
  const std::int64_t until = deadline->time_since_epoch().count() - setup_.clock_base;
  write(ask.number, Event::Kind::until, static_cast<std::uint64_t>(until));
}

// Handles of the same ticket, released in any order; the last one goes on.
Hold Client::hold_again(Hold hold) {
  Hold again = hold.again(hold.claims());
  Hold third = again.again(hold.claims());
  (one_in(random_, 2) ? hold : third).release();
  return again;
}

void Client::narrow(Hold& hold, const Ask& ask) {
  const std::vector<Claim> claims = random_narrowing(random_, ask.claims);
  if (claims.empty()) return;
  write(ask.number, Event::Kind::narrowed, 0, {}, claims);
  hold.downgrade(claims);
}

// This sleep does not wait for a state: it is the load.
void Client::hold_for_a_while(const Ask& ask, const std::stop_token& lost) {
  if (ask.max_hold != 0ms && one_in(random_, 6)) {  // Until it is taken away.
    std::mutex mutex;
    std::condition_variable_any told;
    std::unique_lock lock{mutex};
    told.wait(lock, lost, [] { return false; });
    return;
  }
  const std::chrono::microseconds time = one_in(random_, 2) ? 0us : some(random_, 3ms);
  if (time > 0us) std::this_thread::sleep_for(time);
}

}  // namespace tenure::stress
