// mutex.hpp: a claim as a lockable object, for the standard's locks.
//
//   tenure::Mutex mutex = space.mutex(book(3));
//   const std::scoped_lock lock{mutex};
//
// Meets Lockable, TimedLockable and their shared forms. lock() asks for the claim as it is; the
// shared forms ask for its path in the group `shared`. Unlike std::mutex it is fair, it may be
// unlocked by another thread than locked it, and unlocking what is not locked throws.
//
// Thread safety: all calls may run at once.
#pragma once

#include <chrono>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "tenure/claim.hpp"
#include "tenure/hold.hpp"
#include "tenure/locker.hpp"

namespace tenure {

class Mutex {
 public:
  Mutex(Locker locker, Claim claim)
      : locker_(std::move(locker)), claim_(std::move(claim)), shared_claim_(claim_.path.shared()) {}
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;
  ~Mutex() = default;  // Gives back what is still held.

  void lock() { own_.keep(locker_.lock(claim_)); }
  bool try_lock() { return own_.keep(locker_.try_lock(claim_)); }
  template <class Rep, class Period>
  bool try_lock_for(const std::chrono::duration<Rep, Period>& time) {
    return own_.keep(locker_.try_lock_for(claim_, time));
  }
  template <class Clock, class Duration>
  bool try_lock_until(const std::chrono::time_point<Clock, Duration>& time) {
    return own_.keep(locker_.try_lock_until(claim_, time));
  }
  void unlock() { own_.give_back(); }

  void lock_shared() { shared_.keep(locker_.lock(shared_claim_)); }
  bool try_lock_shared() { return shared_.keep(locker_.try_lock(shared_claim_)); }
  template <class Rep, class Period>
  bool try_lock_shared_for(const std::chrono::duration<Rep, Period>& time) {
    return shared_.keep(locker_.try_lock_for(shared_claim_, time));
  }
  template <class Clock, class Duration>
  bool try_lock_shared_until(const std::chrono::time_point<Clock, Duration>& time) {
    return shared_.keep(locker_.try_lock_until(shared_claim_, time));
  }
  void unlock_shared() { shared_.give_back(); }

  // Whether lock(), or lock_shared(), got a hold through this object that was not unlocked yet.
  [[nodiscard]] bool owns_lock() const { return own_.token() != Token{}; }
  [[nodiscard]] bool owns_lock_shared() const { return shared_.token() != Token{}; }
  // Of the newest hold that lock() got; Token{} when there is none.
  [[nodiscard]] Token token() const { return own_.token(); }

 private:
  // Several may be held at once, in a group; any of them may go first.
  class Holds {
   public:
    bool keep(std::optional<Hold> hold);
    void give_back();
    [[nodiscard]] Token token() const;

   private:
    mutable std::mutex mutex_;
    std::vector<Hold> holds_;  // Guarded by mutex_.
  };

  Locker locker_;
  Claim claim_;
  Claim shared_claim_;
  Holds own_;
  Holds shared_;
};

inline Mutex Locker::mutex(Claim claim) const { return Mutex{*this, std::move(claim)}; }

}  // namespace tenure
