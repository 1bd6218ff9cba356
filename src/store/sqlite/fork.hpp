// fork.hpp: what keeps a forked child from harming its parent's stores.
//
// A child gets copies of everything but threads and POSIX locks: SQLite then believes in locks that
// nobody holds, and an OFD lock lives on for as long as the child has the description open. So, at
// every fork() of the process,
//
//   before              each store finishes what it is doing and closes its SQLite connections
//   after, in parent    they are opened again when they are needed
//   after, in child     base::forked_since() is true; every Descriptor is closed
//
// Thread safety: all of it. The handlers take `opening_mutex`, then their own, then each store's
// Traffic: whoever is inside a Traffic takes neither.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/fork.hpp"
#include "base/mutex.hpp"

namespace tenure::sqlite {

// Held while a store is being opened, so that no child gets half of one.
[[nodiscard]] base::Mutex& opening_mutex() noexcept;

// Lets calls through, but for the time of a fork.
class Traffic {
 public:
  void enter() noexcept;
  void leave() noexcept;
  // When it returns nobody is inside, until resume().
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

// Is told of forks between enlist() and delist(): in a class that is whole.
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

// A file descriptor that a forked child does not keep. Stays where it is.
class Descriptor {
 public:
  // As open(2), close-on-exec. In one step with being known here, so no child slips in between.
  Descriptor(const char* path, int flags, unsigned mode = 0) noexcept;
  ~Descriptor();
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  [[nodiscard]] int get() const noexcept {
    return fd_;
  }  // -1 in a forked child, and where open failed.

 private:
  friend struct ForkHandlers;
  int fd_ = -1;
  const std::uint64_t generation_;
  Descriptor* previous_ = nullptr;
  Descriptor* next_ = nullptr;
};

}  // namespace tenure::sqlite
