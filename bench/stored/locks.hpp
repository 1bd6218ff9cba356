// locks.hpp: locks that two processes can take in turn, ours and others, behind one interface.
//
// A Lock is created in the process that uses it, after the fork. Two processes that use the same
// kind and Meeting share one lock.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string_view>

#include "bench/stored/child.hpp"

namespace tenure::bench::stored {

class Lock {
 public:
  Lock() = default;
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;
  virtual ~Lock() = default;
  virtual void acquire() = 0;
  virtual void release() = 0;
  // For a lock that another thread of the process acquires and releases: when it had the lock, and
  // where it is to say when it gives the lock up.
  [[nodiscard]] virtual double acquired_at() { return now(); }
  virtual void release(std::atomic<double>& at) {
    at.store(now());
    release();
  }
};

enum class Kind : std::uint8_t {
  ours,
  control,  // The minimum: one write transaction and a futex; one read transaction.
  futex,    // The futex alone. Neither of these two is a lock: they pass a baton between two sides.
  flock,    // flock(2) on a file, as flock(1) does.
  polling,  // A queue in SQLite that is polled every 100 ms.
};
inline constexpr std::size_t kinds = 5;

// Created before the fork.
struct Meeting {
  std::filesystem::path file;  // The common prefix of all file names.
  Signal* baton = nullptr;  // In shared memory. Whose turn it is, 0 or 1; none but control, futex.
};

[[nodiscard]] std::unique_ptr<Lock> make_lock(Kind kind, const Meeting& meeting,
                                              std::uint32_t side);

}  // namespace tenure::bench::stored
