// lifetime.hpp: how long a stored space lives: its users, its end, and the memory behind it.
//
//   open --- close() ---> closed --- the last user leaves ---> ending --- end() ---> ended
//
// Users are the Space itself, each ticket that waits or is held, each call and each post under way.
// The end runs on a thread of its own (endings.hpp): the last user may be a thread of the store or
// of the space, and neither can wait for itself. The memory has two owners, the Lockers and the
// end; the last of them destroys the space.
//
// Mutex: it guards the counts that await_end() waits for. No call of another class is made with it
// locked, so it may be locked with any other mutex held.
//
// Thread safety: all calls.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <typeinfo>
#include <utility>

#include "base/annotations.hpp"
#include "base/fork.hpp"
#include "base/mutex.hpp"

namespace tenure::stored {

class Lifetime {
 public:
  // `kind`: the type of the store, for run_ending(). `end` joins all threads of the space and runs
  // once. `destroy` deletes the space, and this with it.
  Lifetime(const std::type_info& kind, std::function<void()> end, std::function<void()> destroy)
      : kind_(kind), end_(std::move(end)), destroy_(std::move(destroy)) {}
  Lifetime(const Lifetime&) = delete;
  Lifetime& operator=(const Lifetime&) = delete;
  ~Lifetime() = default;

  // In a child of the process that opened the space.
  [[nodiscard]] bool forked() const noexcept { return base::forked_since(fork_generation_); }
  [[nodiscard]] bool closed() const noexcept { return closed_.load(std::memory_order_acquire); }
  // Throws Error in a forked child, and Closed after close().
  void check_open() const;
  // The same for calls on a Hold, which stays valid after close().
  void check_process() const;
  // True: this call closed it.
  [[nodiscard]] bool close() noexcept { return !closed_.exchange(true, std::memory_order_acq_rel); }

  void enter() noexcept { users_.fetch_add(1, std::memory_order_relaxed); }
  void leave() noexcept;
  // What close() waits for beside the end: posts are answered, and nothing is held.
  void hold_begins() noexcept;
  void hold_ends() noexcept;
  void post_begins() noexcept;
  void post_ends() noexcept;
  // Waits until dropped holds are gone from the store and, if nothing is held, the space has ended;
  // for at most `ending_limit`. Does not wait on a thread that the end waits for.
  void await_end() noexcept;

  void own() noexcept { owners_.fetch_add(1, std::memory_order_relaxed); }
  void disown() noexcept;

  // A user for the duration of a scope.
  class Stay {
   public:
    explicit Stay(Lifetime& life) noexcept : life_(life) { life_.enter(); }
    Stay(const Stay&) = delete;
    Stay& operator=(const Stay&) = delete;
    ~Stay() { life_.leave(); }

   private:
    Lifetime& life_;
  };
  // Around the release of a hold: the last one of a closed space waits for the end.
  class Departure {
   public:
    explicit Departure(Lifetime& life) noexcept
        : life_(life.closed() && !life.forked() ? &life : nullptr) {
      if (life_ != nullptr) life_->own();
    }
    Departure(const Departure&) = delete;
    Departure& operator=(const Departure&) = delete;
    ~Departure() {
      if (life_ == nullptr) return;
      life_->await_end();
      life_->disown();
    }

   private:
    Lifetime* const life_;
  };
  // While one exists, this thread runs a notice or the callback of a post: it belongs to a store.
  class InStore {
   public:
    InStore() noexcept { ++depth; }
    InStore(const InStore&) = delete;
    InStore& operator=(const InStore&) = delete;
    ~InStore() { --depth; }
    [[nodiscard]] static bool here() noexcept { return depth > 0; }

   private:
    static thread_local int depth;
  };
  // While one exists, this thread is one that the end of the space joins.
  class Working {
   public:
    explicit Working(const Lifetime& life) noexcept : before_(std::exchange(current, &life)) {}
    Working(const Working&) = delete;
    Working& operator=(const Working&) = delete;
    ~Working() { current = before_; }
    [[nodiscard]] static bool here(const Lifetime& life) noexcept { return current == &life; }

   private:
    static thread_local const Lifetime* current;
    const Lifetime* const before_;
  };

 private:
  void end() noexcept;

  const std::uint64_t fork_generation_ = base::fork_generation();
  const std::type_info& kind_;
  const std::function<void()> end_;
  const std::function<void()> destroy_;
  std::atomic<std::size_t> users_ = 1;   // The Space.
  std::atomic<std::size_t> owners_ = 2;  // The Lockers, and the end.
  std::atomic<bool> closed_ = false;
  std::atomic<bool> ending_ = false;

  base::Mutex mutex_;
  std::condition_variable_any changed_;  // Any of the following.
  std::size_t holds_ TENURE_GUARDED_BY(mutex_) = 0;
  std::size_t posts_ TENURE_GUARDED_BY(mutex_) = 0;
  bool ended_ TENURE_GUARDED_BY(mutex_) = false;
  bool given_up_ TENURE_GUARDED_BY(mutex_) = false;  // The thread that closed it waits no longer.
};

}  // namespace tenure::stored
