#include "tests/faults/fault_client.hpp"

#include <algorithm>
#include <array>
#include <thread>
#include <utility>

#include "tenure/error.hpp"

namespace tenure::faults {
namespace {

using namespace std::chrono_literals;
using stress::below;
using stress::Event;
using stress::one_in;

constexpr std::array way_names = {"lock", "lock-stop", "try_lock", "try_lock_for"};
// A max_hold: only an `until` in the log makes a hold certain.
constexpr std::uint64_t as_proved = 1;
constexpr std::uint32_t places = 2;  // The limit of every semaphore.

// A few paths of two roots, one below another, so that most conflict; now and then the path above
// all.
Path some_path(stress::Random& random) {
  if (one_in(random, 16)) return {};
  Path root = Path::of(one_in(random, 2) ? "a" : "b");
  if (one_in(random, 8)) return root;
  return root / Path::of(one_in(random, 2) ? "0" : "1");
}

std::vector<Claim> some_claims(stress::Random& random) {
  const std::uint64_t count = one_in(random, 4) ? 2 : 1;
  std::vector<Claim> claims;
  while (claims.size() < count) {
    const Path path = some_path(random);
    if (std::ranges::find(claims, path, &Claim::path) != claims.end()) continue;
    switch (below(random, 4)) {
      case 0: claims.push_back(path.shared()); break;
      case 1: claims.push_back(path.permits(places)); break;
      default: claims.push_back(path.exclusive()); break;
    }
  }
  return claims;
}

}  // namespace

void FaultClient::round() {
  if (!space_ && !reopen()) return;
  const auto way = static_cast<Way>(below(random_, way_names.size()));
  std::optional<Hold> hold = ask(way, some_claims(random_));
  if (!hold) return;
  keep(*hold);
  leave(*std::move(hold));
}

std::string FaultClient::take_all() {
  while (!space_ && !reopen()) {
  }
  std::optional<Hold> hold = ask(Way::lock, {Path{}.exclusive()});
  if (!hold) return "the whole space can't be had";
  prove(*hold, true);
  std::string left;
  const std::vector<TicketInfo> all = space_->inspect();
  for (const TicketInfo& info : all) {
    if (info.ticket.number != hold->token()) left += ' ' + std::to_string(info.ticket.number.value);
  }
  leave(*std::move(hold));
  return left.empty() ? left : "left behind:" + left;
}

bool FaultClient::reopen() {
  note("opens");
  try {
    space_ = std::make_unique<Space>(open(setup_.store, {.label = "worker", .ttl = setup_.lease}));
    note("is open");
    return true;
  } catch (const StoreError& error) {
    note(error.what());
    return false;
  }
}

void FaultClient::close() {
  note("closes");
  space_.reset();
  note("is closed");
}

void FaultClient::note(const std::string& what) const {
  setup_.life.write(std::to_string(stress::boot_ns()) + " thread " + std::to_string(thread_) +
                    ": " + what + '\n');
}

std::optional<Hold> FaultClient::ask(Way way, const std::vector<Claim>& claims) {
  ++request_;
  const std::stop_token stop = new_stop();
  write(request_, Event::Kind::asked, 0, way_names.at(static_cast<std::size_t>(way)), claims,
        as_proved);
  std::string why = way == Way::try_lock ? "busy" : "gave-up";
  try {
    if (auto hold = call(way, claims, stop)) {
      write_grant(request_, *hold);
      return hold;
    }
  } catch (const SessionLost&) {
    why = "session-lost";
  } catch (const Evicted&) {
    why = "session-lost";  // Its ticket was removed, and it noticed that first.
  } catch (const StoreError&) {
    why = "store";
  } catch (const std::exception& error) {
    why = stress::one_word(error.what());
  }
  write(request_, Event::Kind::refused, 0, why);
  if (why == "session-lost") close();
  return std::nullopt;
}

std::optional<Hold> FaultClient::call(Way way, const std::vector<Claim>& claims,
                                      const std::stop_token& stop) {
  const Space& space = *space_;
  switch (way) {
    case Way::lock: return space.lock(claims);
    case Way::lock_stop: return space.lock(claims, stop);
    case Way::try_lock: return space.try_lock(claims);
    case Way::try_lock_for: return space.try_lock_for(claims, 50ms);
  }
  return std::nullopt;
}

// Mostly as short as possible; sometimes long enough for a fault to strike.
void FaultClient::keep(const Hold& hold) {
  if (setup_.proof == Proof::silence) {
    // Sometimes longer than a lease.
    const auto longer = std::chrono::nanoseconds{setup_.lease + 1s};
    return keep_until_lost(hold, one_in(random_, 150) ? longer : below(random_, 9) * 1ms);
  }
  const bool long_one = one_in(random_, 20);
  for (std::uint64_t i = below(random_, 3) + (long_one ? 10 : 0); i > 0; --i) {
    prove(hold, one_in(random_, 2));
    if (long_one) std::this_thread::sleep_for(10ms);  // This is no waiting for a state: it is load.
  }
  prove(hold, one_in(random_, 2));
}

// Reads the clock before it checks that lost() has not fired.
void FaultClient::keep_until_lost(const Hold& hold, std::chrono::nanoseconds time) {
  const std::int64_t end = stress::boot_ns() + time.count();
  for (;;) {
    const std::int64_t now = stress::boot_ns();
    if (hold.lost().stop_requested()) return write(request_, Event::Kind::lost);
    write(request_, Event::Kind::until, static_cast<std::uint64_t>(now));
    if (now >= end) return;
    std::this_thread::sleep_for(1ms);  // This is no waiting for a state: it is load.
  }
}

// The ticket exists now, so the hold was certain until before this call.
void FaultClient::prove(const Hold& hold, bool with_write) {
  const std::int64_t before = stress::boot_ns();
  try {
    Txn txn;
    txn.guards = hold.guard();
    if (with_write) txn.writes.push_back(Write::put("proof", std::to_string(before)));
    if (setup_.store->apply(txn).committed) {
      write(request_, Event::Kind::until, static_cast<std::uint64_t>(before));
    }
  } catch (const StoreError&) {  // NOLINT(bugprone-empty-catch)
    // Nothing is proved then.
  }
}

void FaultClient::leave(Hold hold) {
  if (!give_back(request_, std::move(hold), true)) close();
}

}  // namespace tenure::faults
