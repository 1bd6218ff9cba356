// hold.hpp: a granted ticket, as a move-only value that gives the ticket back when it goes.
//
//   state     | token()      | release()        | destructor, or moved onto
//   ----------+--------------+------------------+--------------------------
//   holding   | its number   | true; empty      | gives it back
//   lost      | its number   | false; empty     | nothing
//   empty     | Token{}      | false            | nothing
//
// Lost: it was evicted, its deadline passed, or its session died. From then on it is lost in every
// call: renew() returns false, downgrade() throws, and a guard() fails.
//
// Empty is what was moved from, released or made by default. A second release() does nothing: it
// can never give back somebody else's hold.
//
// again() makes another handle of the same ticket: a Hold with the same token(), lost() and
// deadline(). The ticket is given back when the last of its handles goes, in whatever order they
// do; release() of an earlier one returns true and gives nothing back. While there are others,
// downgrade(), detach() and release(part) throw BadRequest: they would change what the others have.
//
// A Hold keeps the inside of its space alive, and may move between threads; one Hold is not to be
// used by two threads at once. Handles of one ticket may end on different threads at once; for all
// other calls they count as one Hold.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <exception>
#include <initializer_list>
#include <optional>
#include <span>
#include <stop_token>
#include <utility>
#include <vector>

#include "tenure/claim.hpp"
#include "tenure/detail/backend.hpp"
#include "tenure/detail/sync_waiter.hpp"
#include "tenure/error.hpp"
#include "tenure/store.hpp"
#include "tenure/ticket.hpp"

namespace tenure {

class Hold {
 public:
  Hold() noexcept = default;
  Hold(Hold&& other) noexcept
      : backend_(std::exchange(other.backend_, nullptr)),
        grant_(other.grant_),
        handles_(std::exchange(other.handles_, nullptr)) {}
  Hold& operator=(Hold&& other) noexcept {
    if (this != &other) {
      drop();
      backend_ = std::exchange(other.backend_, nullptr);
      grant_ = other.grant_;
      handles_ = std::exchange(other.handles_, nullptr);
    }
    return *this;
  }
  Hold(const Hold&) = delete;
  Hold& operator=(const Hold&) = delete;
  // Never throws, and does not wait: what a store can't take now is given back as soon as it can.
  // Only the last hold of a space that was closed waits until the space has ended: space.hpp.
  ~Hold() { drop(); }

  // Pass it to whatever the lock protects, and let that refuse a smaller one than it has seen.
  [[nodiscard]] Token token() const noexcept {
    return backend_ != nullptr ? grant_.token : Token{};
  }
  [[nodiscard]] explicit operator bool() const noexcept { return backend_ != nullptr; }

  // Gives it back; it is gone when this returns. True when it was still held. Whoever is next and
  // waits as a coroutine without an executor of its own is resumed in here. Throws StoreError where
  // the store can't be written; it is then given back as soon as it can.
  bool release() {
    detail::Backend* const backend = std::exchange(backend_, nullptr);
    if (backend == nullptr) return false;
    return others_remain() || backend->release(grant_);
  }

  // The same in one transaction with the caller's guards and writes. True: the hold was given back
  // and the writes were made. False: it was lost, and nothing was written. Throws GuardFailed where
  // a guard of the part does not hold, and StoreError; the hold is then as before. After a
  // StoreError that is unknown() both were done or neither; a second release() tells by its result
  // whether the hold was still there. Throws BadRequest in local:.
  bool release(const TxnPart& part) {
    if (backend_ == nullptr) return false;
    check_only_handle();
    const bool held = backend_->release_with(grant_, part);
    forget();
    return held;
  }

  // Another handle of the same ticket, for code that asks for a lock which its caller may hold:
  // explicit reentrancy. Makes no request, and no call to a store unless a limit is held, which
  // another process may have changed. Each claim must be covered by one that is held: the same, on
  // the same path or a deeper one, or any group where the held one is exclusive (reading beside
  // one's own write lock); of a limit, no more than is held. Throws BadRequest otherwise. The
  // handle stands for the whole ticket, whatever part was asked for.
  [[nodiscard]] Hold again(const Request& request) const;

  // release() with an Asio completion token, void(std::exception_ptr, bool); the hold is empty at
  // once. Include <tenure/asio.hpp>, which defines it.
  template <class CompletionToken>
  auto async_release(CompletionToken&& token);
  // release(part) in the same form; the hold is empty at once. After GuardFailed or StoreError it
  // is back in this object when the handler runs, so the object must stay where it is until then.
  template <class CompletionToken>
  auto async_release(TxnPart part, CompletionToken&& token);

  // Leaves an anchored ticket (Locker::anchored) to whoever calls Space::find() with the token that
  // this returns. The hold is empty then. Throws BadRequest for a ticket that ends with its
  // process.
  Token detach() {
    if (backend_ == nullptr) throw BadRequest("detach() called on an empty Hold: lock first");
    check_only_handle();
    backend_->detach(grant_);
    forget();
    return grant_.token;
  }

  // Until when it is held at most, by the store's clock; nothing without a max_hold or an eviction.
  [[nodiscard]] std::optional<Instant> deadline() const {
    return backend_ != nullptr ? backend_->deadline(grant_) : std::nullopt;
  }
  // Begins its max_hold anew, if it has one. False: it is lost, or being evicted, and never comes
  // back.
  bool renew() { return backend_ != nullptr && backend_->renew(grant_, {}); }
  // The same with another max_hold, from now on; also for a hold that had none. It must be greater
  // than zero.
  bool renew(std::chrono::nanoseconds max_hold) {
    detail::check_max_hold(max_hold);
    return backend_ != nullptr && backend_->renew(grant_, max_hold);
  }

  // What is held: the request, or what the last downgrade() left of it. Empty of an empty Hold.
  [[nodiscard]] std::vector<Claim> claims() const {
    return backend_ != nullptr ? backend_->claims(grant_) : std::vector<Claim>{};
  }

  // "This ticket still stands, with these claims": put it into a transaction on the store that the
  // space is in, and the write and its fence are one atomic step. Of a hold past its deadline, no
  // transaction commits with it. One that was taken before holds until the ticket is removed, at
  // the latest before the next grant. Throws BadRequest in local:.
  [[nodiscard]] std::vector<Guard> guard() const {
    if (backend_ == nullptr) throw BadRequest("guard() called on an empty Hold: lock first");
    return backend_->guard(grant_);
  }

  // Keeps the number and gives back the rest of the claims: drops some, turns exclusive into a
  // group, or narrows a path. Throws BadRequest when `claims` ask for more than is held, Evicted
  // when it is lost; either way the hold is as before. After a StoreError that is unknown() the
  // hold has either claims, and its next call finds out which.
  void downgrade(std::span<const Claim> claims) {
    if (backend_ == nullptr) throw BadRequest("downgrade() called on an empty Hold: lock first");
    check_only_handle();
    backend_->downgrade(grant_, claims);
  }
  void downgrade(const Claim& claim) { downgrade(std::span{&claim, 1}); }
  void downgrade(std::initializer_list<Claim> claims) {
    downgrade(std::span{claims.begin(), claims.size()});
  }

  // The same in one transaction with the caller's guards and writes. Throws GuardFailed where a
  // guard of the part does not hold.
  void downgrade(std::span<const Claim> claims, const TxnPart& part) {
    if (backend_ == nullptr) throw BadRequest("downgrade() called on an empty Hold: lock first");
    check_only_handle();
    backend_->downgrade_with(grant_, claims, part);
  }
  void downgrade(const Claim& claim, const TxnPart& part) { downgrade(std::span{&claim, 1}, part); }

  // Asks for more, mostly for exclusive instead of shared, and keeps what is held while it waits:
  // nobody else writes in between. The request has a ticket of its own, behind all others, which
  // ignores the held one. It waits for the other holders. When it is granted, it replaces the held
  // ticket, and token() is the new number; take lost() and asked_to_leave() anew.
  //
  // Of two holders that upgrade, the second gets a Deadlock error at once, and so does one who
  // upgrades while another request waits for what it holds: both would wait for each other. Release
  // and lock again then. Throws BadRequest where the new claims do not cover what is held, or one
  // has a limit; Evicted when the hold is lost; and what lock() throws. After an exception, or
  // false, the hold is as before.
  void upgrade(const Request& request);
  // False: a stop was requested, or the time was over. try_upgrade() does not wait.
  [[nodiscard]] bool upgrade(const Request& request, std::stop_token stop);
  [[nodiscard]] bool try_upgrade(const Request& request);
  [[nodiscard]] bool try_upgrade_for(const Request& request, std::chrono::nanoseconds time,
                                     std::stop_token stop = {});

  // Stops when the space can no longer vouch for the hold, with a margin before the next one gets
  // in where there is a deadline. In a local space that is an eviction; callbacks run on the
  // evicting thread, before the next one gets in, and must not wait for it. In others they run on a
  // thread of their own, and deadlines are counted down in this process: they pass in time, however
  // slow or far the store is.
  [[nodiscard]] std::stop_token lost() const {
    return backend_ != nullptr ? backend_->lost(grant_) : std::stop_token{};
  }
  // Stops when somebody asks for the lock (Space::ask_to_leave). The hold stays: release it when
  // the work can be left. Callbacks run where those of lost() do.
  [[nodiscard]] std::stop_token asked_to_leave() const {
    return backend_ != nullptr ? backend_->asked_to_leave(grant_) : std::stop_token{};
  }

 private:
  // How many handles a ticket has, once it has had several.
  using Handles = std::atomic<std::size_t>;

  void drop() noexcept {
    detail::Backend* const backend = std::exchange(backend_, nullptr);
    if (backend != nullptr && !others_remain()) backend->drop(grant_);
  }
  // Takes this handle off. The last one continues after everything that the others did.
  [[nodiscard]] bool others_remain() noexcept {
    Handles* const handles = std::exchange(handles_, nullptr);
    if (handles == nullptr) [[likely]]
      return false;
    if (handles->fetch_sub(1, std::memory_order_acq_rel) != 1) return true;
    delete handles;
    return false;
  }
  // After the ticket was given back, or left.
  void forget() noexcept {
    backend_ = nullptr;
    static_cast<void>(others_remain());
  }
  void check_only_handle() const;
  [[nodiscard]] bool upgrade_within(const Request& request, detail::TimeLeft left,
                                    std::stop_token stop);

  friend class Locker;
  friend struct detail::HoldAccess;
  Hold(detail::Backend* backend, const detail::Grant& grant) noexcept
      : backend_(backend), grant_(grant) {}

  detail::Backend* backend_ = nullptr;
  detail::Grant grant_;
  mutable Handles* handles_ = nullptr;  // Null: this is the only handle.
};

namespace detail {
// For what makes holds out of grants: awaiters and operations.
struct HoldAccess {
  static Hold make(Backend* backend, const Grant& grant) noexcept { return {backend, grant}; }
  static void release_then(Hold& hold, Backend::Released done) noexcept {
    Backend* const backend = std::exchange(hold.backend_, nullptr);
    if (backend == nullptr) {
      done(nullptr, false);
    } else if (hold.others_remain()) {
      done(nullptr, true);
    } else {
      backend->release_then(hold.grant_, std::move(done));
    }
  }
  // The hold is as before if `done` gets an error; forget() it otherwise.
  static void release_with_then(const Hold& hold, TxnPart part, Backend::Released done) noexcept {
    if (hold.backend_ == nullptr) {
      done(nullptr, false);
      return;
    }
    try {
      hold.check_only_handle();
    } catch (...) {
      done(std::current_exception(), false);
      return;
    }
    hold.backend_->release_with_then(hold.grant_, std::move(part), std::move(done));
  }
  static void forget(Hold& hold) noexcept { hold.forget(); }
};
}  // namespace detail

}  // namespace tenure
