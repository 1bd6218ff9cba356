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

#include <memory>
#include <optional>
#include <stop_token>
#include <string_view>
#include <utility>
#include <vector>

#include "tenure/detail/backend.hpp"
#include "tenure/hold.hpp"
#include "tenure/locker.hpp"
#include "tenure/store.hpp"
#include "tenure/ticket_info.hpp"

namespace tenure {

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
    if (backend_ != nullptr) backend_->close();
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

// "local:" is a new space of this process; any other URL names a store (store.hpp). Throws Error
// for a URL that names none, StoreError for a store that can't be opened.
[[nodiscard]] Space open(std::string_view url);
// The space in a store, for those who use the store as well; spaces in the same one are the same.
[[nodiscard]] Space open(std::shared_ptr<Store> store, SessionOptions options = {});

namespace detail {
// For rooms that stand on a space.
struct SpaceAccess {
  static Backend& backend(const Space& space) noexcept { return *space.backend_; }
};
}  // namespace detail

}  // namespace tenure
