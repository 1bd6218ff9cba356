// hold.hpp: a granted ticket, as a move-only value that gives the ticket back when it goes.
//
//   state     | token()      | release()        | destructor, or moved onto
//   ----------+--------------+------------------+--------------------------
//   holding   | its number   | true; empty      | gives it back
//   evicted   | its number   | false; empty     | nothing
//   empty     | Token{}      | false            | nothing
//
// Empty is what was moved from, released or made by default. A second release() does nothing: it
// can never give back somebody else's hold.
//
// A Hold keeps the inside of its space alive, and may move between threads; one Hold is not to be
// used by two threads at once.
#pragma once

#include <initializer_list>
#include <span>
#include <stop_token>
#include <utility>

#include "tenure/detail/backend.hpp"
#include "tenure/ticket.hpp"

namespace tenure {

class Hold {
 public:
  Hold() noexcept = default;
  Hold(Hold&& other) noexcept
      : backend_(std::exchange(other.backend_, nullptr)), grant_(other.grant_) {}
  Hold& operator=(Hold&& other) noexcept {
    if (this != &other) {
      release();
      backend_ = std::exchange(other.backend_, nullptr);
      grant_ = other.grant_;
    }
    return *this;
  }
  Hold(const Hold&) = delete;
  Hold& operator=(const Hold&) = delete;
  ~Hold() { release(); }

  // Pass it to whatever the lock protects, and let that refuse a smaller one than it has seen.
  [[nodiscard]] Token token() const noexcept {
    return backend_ != nullptr ? grant_.token : Token{};
  }
  [[nodiscard]] explicit operator bool() const noexcept { return backend_ != nullptr; }

  // Gives it back; it is gone when this returns. True when it was still held. Whoever is next and
  // waits as a coroutine without an executor of its own is resumed in here.
  bool release() noexcept {
    detail::Backend* const backend = std::exchange(backend_, nullptr);
    return backend != nullptr && backend->release(grant_);
  }

  // Keeps the number and gives back the rest of the claims: drops some, turns exclusive into a
  // group, or narrows a path. Throws BadRequest when `claims` ask for more than is held, Evicted
  // when it was evicted; either way the hold is as before.
  void downgrade(std::span<const Claim> claims) {
    if (backend_ == nullptr) throw BadRequest("an empty hold has nothing to downgrade");
    backend_->downgrade(grant_, claims);
  }
  void downgrade(const Claim& claim) { downgrade(std::span{&claim, 1}); }
  void downgrade(std::initializer_list<Claim> claims) {
    downgrade(std::span{claims.begin(), claims.size()});
  }

  // Stops when the space can no longer vouch for the hold. In a local space that is an eviction;
  // callbacks run on the evicting thread, before the next one gets in, and must not wait for it.
  [[nodiscard]] std::stop_token lost() const {
    return backend_ != nullptr ? backend_->lost(grant_) : std::stop_token{};
  }

 private:
  friend class Locker;
  friend struct detail::HoldAccess;
  Hold(detail::Backend* backend, const detail::Grant& grant) noexcept
      : backend_(backend), grant_(grant) {}

  detail::Backend* backend_ = nullptr;
  detail::Grant grant_;
};

namespace detail {
// For what makes holds out of grants: awaiters and operations.
struct HoldAccess {
  static Hold make(Backend* backend, const Grant& grant) noexcept { return {backend, grant}; }
};
}  // namespace detail

}  // namespace tenure
