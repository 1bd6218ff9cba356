// file_lock.hpp: the lock on a file that flock(1) and other programs take, beside a lock of Tenure.
//
//   const tenure::Hold hold = space.lock("backup");
//   tenure::FileLock file{"/var/lock/backup.lock"};
//   const std::scoped_lock lock{file};             // Scripts that call flock(1) wait for both.
//
// For programs that move over one at a time: take both until the last script uses Tenure. Meets
// Lockable, TimedLockable and their shared forms.
//
//   kind   | excludes holders of                          | needs
//   -------+----------------------------------------------+------------------------------------
//   flock  | flock(2): flock(1), most lock libraries      | the right to read the file
//   fcntl  | fcntl(2) and lockf(3), of other processes    | … and to write it
//
// The kernel serves waiters in no particular order, and has no time limit: the calls with one try
// again and again, up to 20 times per second. The lock ends with the last copy of the descriptor,
// which a child may have inherited, or with unlock().
//
// Thread safety: one thread at a time. Two objects exclude each other, also in one process.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <stop_token>
#include <utility>

#include "tenure/detail/saturating.hpp"

namespace tenure {

class FileLock {
 public:
  enum class Kind : std::uint8_t { flock, fcntl };

  // Opens the file, and creates it if it is missing. Throws Error if it can't.
  explicit FileLock(const std::filesystem::path& file, Kind kind = Kind::flock);
  FileLock(FileLock&& other) noexcept
      : file_(std::move(other.file_)),
        descriptor_(std::exchange(other.descriptor_, -1)),
        kind_(other.kind_) {}
  FileLock& operator=(FileLock&& other) noexcept;
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;
  ~FileLock();

  // Locking what is locked converts the lock; the kernel may let others in meanwhile.
  void lock() { wait(Mode::exclusive); }
  [[nodiscard]] bool try_lock() { return try_once(Mode::exclusive); }
  template <class Rep, class Period>
  [[nodiscard]] bool try_lock_for(std::chrono::duration<Rep, Period> time,
                                  const std::stop_token& stop = {}) {
    return wait_for(Mode::exclusive, detail::to_nanoseconds(time), stop);
  }
  void unlock();

  void lock_shared() { wait(Mode::shared); }
  [[nodiscard]] bool try_lock_shared() { return try_once(Mode::shared); }
  template <class Rep, class Period>
  [[nodiscard]] bool try_lock_shared_for(std::chrono::duration<Rep, Period> time,
                                         const std::stop_token& stop = {}) {
    return wait_for(Mode::shared, detail::to_nanoseconds(time), stop);
  }
  void unlock_shared() { unlock(); }

  // A child that inherits it keeps the lock until it ends.
  [[nodiscard]] int descriptor() const noexcept { return descriptor_; }

 private:
  enum class Mode : std::uint8_t { unlocked, shared, exclusive };
  void wait(Mode mode);
  [[nodiscard]] bool try_once(Mode mode);
  [[nodiscard]] bool wait_for(Mode mode, std::chrono::nanoseconds time,
                              const std::stop_token& stop);
  // False: another has it, or the call was interrupted.
  bool apply(Mode mode, bool waits);

  std::filesystem::path file_;
  int descriptor_ = -1;
  Kind kind_;
};

}  // namespace tenure
