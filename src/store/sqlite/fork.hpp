// fork.hpp: keeps a forked child from harming its parent's stores.
//
// A child inherits everything except threads and POSIX locks: SQLite in the child then relies on
// locks that it does not hold, and an OFD lock lives on as long as the child keeps the description
// open. So, at every fork() of the process,
//
//   before              each store finishes its calls and closes its SQLite connections
//   after, in parent    connections are opened again when they are needed
//   after, in child     base::forked_since() is true; every Descriptor is closed
//
// Thread safety: all of it. The handlers lock `opening_mutex`, then their own mutex, then the
// Traffic of each store; a thread inside a Traffic must lock neither mutex.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/fork.hpp"
#include "base/mutex.hpp"

namespace tenure::sqlite {

// Held while a store is being opened, so that no child inherits half of one.
[[nodiscard]] base::Mutex& opening_mutex() noexcept;

// Lets calls through, except during a fork.
class Traffic {
 public:
  void enter() noexcept;
  void leave() noexcept;
  // Returns when no call is inside; none gets in until resume().
  void pause() noexcept;
  void resume() noexcept;

  class Inside {
   public:
    explicit Inside(Traffic& traffic) noexcept : traffic_(traffic) { traffic_.enter(); }
    ~Inside() { traffic_.leave(); }
    Inside(const Inside&) = delete;
    Inside& operator=(const Inside&) = delete;

   private:
    Traffic& traffic_;
  };

 private:
  std::atomic<std::uint32_t> paused_{0};
  std::atomic<std::uint32_t> inside_{0};
};

// Notified of forks between enlist() and delist(). A derived class calls enlist() when it is fully
// constructed.
class ForkAware {
 public:
  ForkAware() = default;
  ForkAware(const ForkAware&) = delete;
  ForkAware& operator=(const ForkAware&) = delete;
  virtual ~ForkAware() = default;

  virtual void before_fork() noexcept = 0;
  virtual void after_fork_in_parent() noexcept = 0;

 protected:
  void enlist();
  void delist() noexcept;
};

// A file descriptor that is closed in a forked child. Neither copyable nor movable.
class Descriptor {
 public:
  // As open(2), close-on-exec. Opens and registers in one step with respect to forks.
  Descriptor(const char* path, int flags, unsigned mode = 0) noexcept;
  ~Descriptor();
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  [[nodiscard]] int get() const noexcept {
    return fd_;
  }  // -1 in a forked child, and if open failed.

 private:
  friend struct ForkHandlers;
  int fd_ = -1;
  const std::uint64_t generation_;
  Descriptor* previous_ = nullptr;
  Descriptor* next_ = nullptr;
};

}  // namespace tenure::sqlite
