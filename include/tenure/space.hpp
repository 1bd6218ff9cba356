// space.hpp: who holds what, and who is next: the lock API over whatever the URL names.
//
//   tenure::Space space = tenure::open("local:");
//   auto hold = space.lock(book(3));
//
// The calls are those of locker.hpp. Destroying a Space closes it: see close().
//
// Thread safety: const calls may run at once, on any threads. Destroying or moving one is for one
// thread alone, but for calls that wait.
#pragma once

#include <coroutine>
#include <cstddef>
#include <memory>
#include <optional>
#include <stop_token>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "tenure/detail/backend.hpp"
#include "tenure/hold.hpp"
#include "tenure/locker.hpp"
#include "tenure/store.hpp"
#include "tenure/ticket_info.hpp"

namespace tenure {

class Observer;

class Space : public Locker {
 public:
  Space(Space&&) noexcept = default;
  Space& operator=(Space&& other) noexcept;
  Space(const Space&) = delete;
  Space& operator=(const Space&) = delete;
  ~Space();

  // Ends all waits (they throw Closed; so do later requests), and returns when the store has every
  // hold that was dropped, the session is removed and all threads of the space have ended: whoever
  // waits for one of those holds has it. If a server does not answer, it returns after 5 seconds,
  // and the lease ends the session. Holds stay valid: with them the session and its threads go on,
  // and the last hold to go waits in the same way. On a thread that the space itself started (a
  // callback of lost(), a coroutine without an executor) it does not wait; exit() then does.
  void close() noexcept {
    if (backend_ == nullptr) return;
    backend_->closing().request_stop();
    backend_->close();
  }

  // The same space as somebody: an owner that would wait for itself, directly or through others,
  // gets a Deadlock error at once instead. May outlive the Space: its calls then throw Closed.
  [[nodiscard]] Locker as(const Owner& owner) const { return {backend_, backend_->owner(owner)}; }
  [[nodiscard]] Locker as(std::string_view owner) const { return as(Owner{owner}); }

  // The tickets that have a claim on `path`, above it or below it, in ticket order, as they were at
  // one moment.
  [[nodiscard]] std::vector<TicketInfo> inspect(const Path& path = {}) const {
    return backend_->inspect(path);
  }

  // The same, again and again: see Observer.
  [[nodiscard]] Observer observe(const Path& path = {}) const;

  // Calls f, and returns its result; callers with the same key who come while it runs wait, and get
  // a copy of the result, or the same exception. Callers of this Space; of local:NAME, all that
  // opened that name. Other processes make calls of their own: hold a lock in f to exclude them. f
  // must not call once() with its own key: it would wait for itself.
  template <class F>
  std::invoke_result_t<F> once(const Path& key, F&& f) const {
    return backend_->flights().once(key, std::forward<F>(f));
  }

  // Stops when the store has given up the session of this process, whether or not anything is held:
  // all holds and waits have ended then. Open the space again. Never stops in local:; in sharded:,
  // see shards.hpp. Callbacks run on a thread of their own.
  [[nodiscard]] std::stop_token lost() const { return backend_->session_lost(); }

  // The hold of an anchored ticket (Locker::anchored), for whoever takes over the work of a process
  // that has ended; waits until the ticket is granted, or until `stop`, and leaves it where it is
  // then. Nothing: there is no such ticket any more. Throws what lock() does, and BadRequest for a
  // ticket that hangs on a session. Only one process at a time should have it. Tickets with a claim
  // on `path` or below it are read, all by default.
  [[nodiscard]] std::optional<Hold> find(Token token, const Path& path = {},
                                         std::stop_token stop = {}) const;

  // The operator's release: a holder is told (Hold::lost) and loses its hold, a waiter gets an
  // Evicted error. False when there is no such ticket. In a space over a store the holder has a
  // second between being told and the next one's grant; evict_now() does without. What cannot be
  // read there (TicketInfo::fault) goes at once; token zero stands for entries that are no ticket.
  // NOLINTBEGIN(modernize-use-nodiscard): whoever evicts wants it gone, not to know.
  bool evict(Token token) const { return backend_->evict(token, false); }
  bool evict_now(Token token) const { return backend_->evict(token, true); }
  // The same for all tickets with a claim on `path` or below it, those that wait as well: none of
  // them is granted meanwhile. Returns how many.
  std::size_t evict_below(const Path& path) const { return backend_->evict_below(path, false); }
  std::size_t evict_below_now(const Path& path) const { return backend_->evict_below(path, true); }

  // Asks the holder to leave when it can (Hold::asked_to_leave); it may stay. A ticket that waits
  // is asked when it is granted. False when there is no such ticket.
  bool ask_to_leave(Token token) const { return backend_->ask_to_leave(token); }

  // Changes the limit of a group to that of the claim, for example set_limit(vendor.permits(5)),
  // while tickets of the group are live. All of them count under the new limit at once, and
  // requests must name it from then on. Raising it grants the waiting tickets that fit, in order.
  // Lowering it takes nothing away: the next ticket is granted when enough holders have left.
  // Throws LimitMismatch if a live ticket takes more than the new limit or has none, and Deadlock
  // if owners would wait for each other under it; nothing is changed then. Returns how many live
  // tickets the group has. The space knows a limit from live tickets only: if there are none,
  // nothing is changed, and the next request decides.
  std::size_t set_limit(const Claim& limit) const;
  // NOLINTEND(modernize-use-nodiscard)

  // What keeps this process's session alive while it is open: a command that inherits it keeps its
  // parent's holds until it ends. -1 where sessions can't be passed on, as in local:.
  [[nodiscard]] int descriptor() const noexcept { return backend_->descriptor(); }

 private:
  friend Space open(std::string_view url);
  friend Space open(std::shared_ptr<Store> store, SessionOptions options);
  friend struct detail::SpaceAccess;
  explicit Space(std::shared_ptr<detail::Backend> backend) noexcept
      : Locker(std::move(backend), nullptr) {}
};

// The tickets of a space, as they come and go: who holds, who waits, for whom.
//
//   tenure::Observer observer = space.observe("deploy");
//   while (const auto tickets = observer.next(stop)) show(*tickets);
//   … co_await observer.async_next() …
//
// It is told by the store, and does not poll. Changes that follow each other quickly may be seen as
// one. A hold in `local:` costs more while the space is observed.
//
// Thread safety: one thread at a time. It may outlive its Space: next() then throws Closed.
class Observer {
 public:
  Observer(Observer&&) noexcept;
  Observer& operator=(Observer&&) noexcept;
  Observer(const Observer&) = delete;
  Observer& operator=(const Observer&) = delete;
  ~Observer();

  // The tickets as inspect() has them: at once when it is first called, then as soon as they differ
  // from what the last call returned. Throws what inspect() does.
  [[nodiscard]] std::vector<TicketInfo> next();
  // The same; nothing: the stop came first.
  [[nodiscard]] std::optional<std::vector<TicketInfo>> next(std::stop_token stop);
  // The same in a coroutine, which goes on on a thread of the space.
  class Next;
  [[nodiscard]] Next async_next(std::stop_token stop = {});

 private:
  class State;
  friend class Space;
  explicit Observer(std::shared_ptr<State> state) noexcept;
  std::shared_ptr<State> state_;
};

// Await it in the expression that makes it.
class [[nodiscard]] Observer::Next {
 public:
  Next(std::shared_ptr<State> state, std::stop_token stop) noexcept
      : state_(std::move(state)), stop_(std::move(stop)) {}
  Next(const Next&) = delete;
  Next& operator=(const Next&) = delete;
  ~Next();

  [[nodiscard]] static bool await_ready() noexcept { return false; }
  void await_suspend(std::coroutine_handle<> coroutine);
  [[nodiscard]] std::optional<std::vector<TicketInfo>> await_resume();

 private:
  class Wait;
  std::shared_ptr<State> state_;
  std::stop_token stop_;
  std::shared_ptr<Wait> wait_;
};

// "local:" is a new space of this process, and "local:NAME" the one that all have who open that
// name in this process. "sharded:FILE" is one space over several stores (shards.hpp). Any other URL
// names a store (store.hpp). Throws Error for a URL that names none, StoreError for a store that
// can't be opened.
[[nodiscard]] Space open(std::string_view url);
// The space in a store, for those who use the store as well; spaces in the same one are the same.
[[nodiscard]] Space open(std::shared_ptr<Store> store, SessionOptions options = {});

namespace detail {
// For rooms that stand on a space.
struct SpaceAccess {
  static Backend& backend(const Space& space) noexcept { return *space.backend_; }
  static Space make(std::shared_ptr<Backend> backend) noexcept { return Space{std::move(backend)}; }
};
}  // namespace detail

}  // namespace tenure
