// mutex.hpp: std::mutex with annotations for clang's thread-safety analysis.
#pragma once

#include <mutex>

#include "base/annotations.hpp"

namespace tenure::base {

class TENURE_CAPABILITY("mutex") Mutex {
 public:
  class Scoped;

  void lock() TENURE_ACQUIRE() { mutex_.lock(); }
  void unlock() TENURE_RELEASE() { mutex_.unlock(); }
  bool try_lock() TENURE_TRY_ACQUIRE(true) { return mutex_.try_lock(); }

 private:
  std::mutex mutex_;
};

// Holds the mutex until the end of the scope, or until unlock().
class TENURE_SCOPED_CAPABILITY Mutex::Scoped {
 public:
  explicit Scoped(Mutex& mutex) TENURE_ACQUIRE(mutex) : mutex_(mutex) { mutex_.lock(); }
  Scoped(const Scoped&) = delete;
  Scoped& operator=(const Scoped&) = delete;
  ~Scoped() TENURE_RELEASE() {
    if (held_) mutex_.unlock();
  }
  void lock() TENURE_ACQUIRE() {
    mutex_.lock();
    held_ = true;
  }
  void unlock() TENURE_RELEASE() {
    held_ = false;
    mutex_.unlock();
  }

 private:
  Mutex& mutex_;
  bool held_ = true;
};

}  // namespace tenure::base
