// backend.hpp: what stands behind a Space. Not for users: its shape changes with the rooms behind
// it.
//
// A request that is not granted at once leaves a Waiter with the backend; exactly one of these then
// happens to it: done() is called once, or cancel() returns true. Until then its ticket keeps the
// backend alive; after that only a grant does.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "tenure/detail/flights.hpp"
#include "tenure/detail/time_limits.hpp"
#include "tenure/store.hpp"
#include "tenure/ticket.hpp"
#include "tenure/ticket_info.hpp"

namespace tenure::detail {

struct Grant {
  void* ticket = nullptr;  // The backend's record.
  Token token;
};

// `taken` is how a try ends that is made in the background.
enum class WaitOutcome : std::uint8_t { granted, taken, closed, evicted, lost, failed };

// What the thread that makes a request does until it is granted. Only the first may be kept waiting
// by a server that does not answer: for the others, request() returns before it has asked one.
enum class Caller : std::uint8_t { waits, waits_with_limit, goes_on };

class Backend;

// Lives in the caller's frame, stack or operation. done() runs on whichever thread granted, with no
// lock of the backend held; the waiter may be gone as soon as it has been called.
struct Waiter {
  using Done = void (*)(Waiter&, WaitOutcome) noexcept;
  explicit Waiter(Done call) noexcept : done(call) {}

  Done done;
  // done() runs code of the user's: a space whose grants come from a thread that all depend on
  // calls it on another one.
  bool runs_code = false;
  Caller caller = Caller::waits;
  Grant grant;
  std::exception_ptr error;  // Where the outcome is `failed`: what request() would have thrown.

  // For the backend. Whoever sets `decided` says how the wait ends: by a grant, a cancellation, an
  // eviction or the end of the space. It is here and not in the ticket so that a cancellation that
  // comes too late need not look at a ticket that may be gone.
  std::atomic<bool> decided = false;
  Waiter* next = nullptr;
  Backend* front = nullptr;  // That the request came through, if it is not the one that has it.
  [[nodiscard]] bool decide() noexcept {
    return !decided.exchange(true, std::memory_order_acq_rel);
  }
};

struct HoldAccess;   // See hold.hpp.
struct SpaceAccess;  // See space.hpp.
struct OwnerState;   // An owner, as a backend knows it.
using OwnerRef = std::shared_ptr<OwnerState>;

struct Ask {
  std::span<const Claim> claims;
  const OwnerRef& owner;  // Null: nobody.
  // Of an upgrade (Ticket::replaces): the hold, which the caller drops after the grant. The new
  // ticket has its owner and terms. Null: none. request() and try_request() throw Evicted if the
  // hold is lost.
  Grant* held = nullptr;
};

// What a request carries beside its claims and its owner.
struct Terms {
  std::chrono::nanoseconds max_hold{0};  // From the grant on; 0: for ever.
  std::string label;
  std::string anchor;                       // The key that keeps its ticket alive; empty: none.
  std::optional<std::uint64_t> request_id;  // With an anchor only.
  std::shared_ptr<const TxnPart> part;      // For the transaction of the append; null: none.
};

// Throws BadRequest for one that is not greater than zero.
void check_max_hold(std::chrono::nanoseconds time);

// Tickets of a space, for whoever follows them. `changed` is called at least once after a look(),
// when the tickets may be others; it must neither block nor destroy this. When the destructor has
// returned, it is not running any more.
//
// Thread safety: one thread at a time.
class TicketWatch {
 public:
  TicketWatch() = default;
  TicketWatch(const TicketWatch&) = delete;
  TicketWatch& operator=(const TicketWatch&) = delete;
  virtual ~TicketWatch() = default;
  [[nodiscard]] virtual std::vector<TicketInfo> look() = 0;
};

class Backend {
 public:
  Backend() = default;
  Backend(const Backend&) = delete;
  Backend& operator=(const Backend&) = delete;

  // One claim, when that is quick: nobody is in the way. No ticket says nothing: ask properly then.
  // (By value: in registers. Through memory it cost a fifth of a free lock.)
  virtual Grant request_free(const Claim& claim, const OwnerRef& owner) = 0;
  // True: granted, and waiter.grant is set. False: queued, and the waiter may be gone already.
  // Throws BadRequest, LimitMismatch, Deadlock, Closed, leaving nothing behind.
  virtual bool request(const Ask& ask, Waiter& waiter) = 0;
  // The same without waiting: nothing is queued, and nobody sees that it was tried.
  virtual bool try_request(const Ask& ask, Grant& grant) = 0;
  // The same where the answer may be long in coming: the waiter is told. False: here a try never
  // waits for a server, and nothing was begun.
  virtual bool try_in_background(const Ask& /*ask*/, Waiter& /*waiter*/) { return false; }
  // Whether try_request() would be granted now. Takes nothing, and nobody sees it. Throws as that
  // does.
  [[nodiscard]] virtual bool available(const Ask& ask) = 0;
  // Takes the waiter's request out; the caller has decided its end (see cancel() below).
  virtual void withdraw(Waiter& waiter) noexcept = 0;
  // False: it was not held any more (evicted). Either way the grant is used up. Throws StoreError
  // where the store can't be written now; the release is then made as soon as it can.
  virtual bool release(const Grant& grant) = 0;
  // The same, without waiting for anything.
  virtual void drop(const Grant& grant) noexcept = 0;
  // The same, and tells how release() would have ended, on any thread, perhaps inside this call.
  using Released = std::function<void(std::exception_ptr error, bool held)>;
  virtual void release_then(const Grant& grant, Released done) noexcept = 0;
  virtual void downgrade(Grant& grant, std::span<const Claim> claims) = 0;
  // Of spaces over a store: the same in one transaction with the caller's part. Both throw
  // GuardFailed, and then change nothing. After any exception the grant is as before.
  virtual bool release_with(const Grant& /*grant*/, const TxnPart& /*part*/) { throw_no_store(); }
  // Without waiting: tells how release_with() would have ended, as release_then() does.
  virtual void release_with_then(const Grant& grant, TxnPart part, Released done) noexcept;
  virtual void downgrade_with(Grant& /*grant*/, std::span<const Claim> /*claims*/,
                              const TxnPart& /*part*/) {
    throw_no_store();
  }
  [[nodiscard]] virtual std::vector<Claim> claims(const Grant& grant) = 0;
  [[nodiscard]] virtual std::stop_token lost(const Grant& grant) = 0;
  [[nodiscard]] virtual std::stop_token asked_to_leave(const Grant& grant) = 0;
  // Of the session; in a local space, which has none, a token that never stops.
  [[nodiscard]] virtual std::stop_token session_lost() { return {}; }
  [[nodiscard]] virtual std::vector<TicketInfo> inspect(const Path& path) = 0;
  // The tickets, as they come and go; `changed` is called on any thread (see TicketWatch).
  [[nodiscard]] virtual std::unique_ptr<TicketWatch> watch(const Path& path,
                                                           std::function<void()> changed) = 0;
  virtual bool evict(Token token, bool at_once) = 0;
  // All tickets with a claim on the path or below it, in one step; returns how many.
  virtual std::size_t evict_below(const Path& path, bool at_once) = 0;
  virtual bool ask_to_leave(Token token) = 0;
  // As Space::set_limit, which has checked the claim.
  virtual std::size_t set_limit(const Claim& limit) = 0;
  [[nodiscard]] virtual OwnerRef owner(const Owner& owner) = 0;
  // The same owner on other terms. Throws BadRequest where the space has no such thing.
  [[nodiscard]] virtual OwnerRef on_terms(const OwnerRef& owner, const Terms& terms) = 0;

  // False: it is lost, and stays so. `max_hold`: another one from now on; zero: the same as before.
  virtual bool renew(Grant& grant, std::chrono::nanoseconds max_hold) = 0;
  // Of spaces over a store: waits, as request() does, for a ticket that is there already, among
  // those with a claim on `path` or below it, and that hangs on a key. Null: there is no such
  // ticket. Cancelling the wait leaves the ticket.
  [[nodiscard]] virtual std::optional<bool> attach(Token /*token*/, const Path& /*path*/,
                                                   Waiter& /*waiter*/) {
    throw_not_anchored();
  }
  // Uses the grant up, and leaves the ticket to whoever attaches to it next.
  virtual void detach(const Grant& /*grant*/) { throw_not_anchored(); }
  [[nodiscard]] virtual std::optional<Instant> deadline(const Grant& grant) = 0;
  [[nodiscard]] virtual std::vector<Guard> guard(const Grant& grant) = 0;
  [[nodiscard]] virtual int descriptor() const noexcept { return -1; }
  // Ends all waits with WaitOutcome::closed; further requests throw Closed. Ends what the backend
  // started, unless something is held.
  virtual void close() noexcept = 0;
  // Nobody will ask any more; what is held stays valid, and the last release deletes the backend.
  virtual void abandon() noexcept = 0;

  // To a waiter's `front`: its request has ended, neither granted nor withdrawn by the caller.
  virtual void wait_ended() noexcept {}
  // For Space::once(). A backend that stands for another one returns that one's.
  [[nodiscard]] virtual Flights& flights() noexcept { return flights_; }
  // Stopped when the Space is closed, before close().
  [[nodiscard]] std::stop_source& closing() noexcept { return closing_; }
  // For waits of coroutines, which have no thread that could count the time down.
  [[nodiscard]] std::shared_ptr<TimeLimits> time_limits();

 protected:
  virtual ~Backend() = default;

 private:
  [[noreturn]] static void throw_not_anchored();
  [[noreturn]] static void throw_no_store();

  Flights flights_;
  std::stop_source closing_;
  std::mutex limits_mutex_;
  std::shared_ptr<TimeLimits> limits_;  // Guarded by limits_mutex_.
};

// True: the waiter is out, and done() will not be called. False: done() was, or is being, called,
// and the backend may be gone: so it is not even looked at.
inline bool cancel(Backend* backend, Waiter& waiter) noexcept {
  if (!waiter.decide()) return false;
  backend->withdraw(waiter);
  return true;
}

// The outermost scope of a thread resumes the coroutines that became due within it, at its end.
class ResumeScope {
 public:
  ResumeScope() noexcept;
  ResumeScope(const ResumeScope&) = delete;
  ResumeScope& operator=(const ResumeScope&) = delete;
  ~ResumeScope();
};

}  // namespace tenure::detail
