#include "store/sqlite/fork.hpp"

#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

namespace tenure::sqlite {

// The handlers lock in one function and unlock in another, which the thread-safety analysis can't
// follow.
struct ForkHandlers {
  base::Mutex opening;
  base::Mutex mutex;
  std::vector<ForkAware*> aware;
  Descriptor* descriptors = nullptr;

  // Never destroyed: a store may outlive every static object.
  static ForkHandlers& instance() {
    static auto* const handlers = [] {
      // Registers its handler first, so that it counts before after_in_child runs.
      static_cast<void>(base::fork_generation());
      ::pthread_atfork(before, after_in_parent, after_in_child);
      return new ForkHandlers;
    }();
    return *handlers;
  }

  static void before() noexcept TENURE_LOCKS_A_SET {
    ForkHandlers& self = instance();
    self.opening.lock();
    self.mutex.lock();
    for (ForkAware* one : self.aware) one->before_fork();
  }

  static void after_in_parent() noexcept TENURE_LOCKS_A_SET {
    ForkHandlers& self = instance();
    for (ForkAware* one : self.aware) one->after_fork_in_parent();
    self.mutex.unlock();
    self.opening.unlock();
  }

  static void after_in_child() noexcept TENURE_LOCKS_A_SET {
    ForkHandlers& self = instance();
    while (Descriptor* const one = self.descriptors) {
      self.descriptors = one->next_;
      ::close(one->fd_);
      one->fd_ = -1;
    }
    self.aware.clear();
    self.mutex.unlock();
    self.opening.unlock();
  }
};

base::Mutex& opening_mutex() noexcept { return ForkHandlers::instance().opening; }

void Traffic::enter() noexcept {
  while (true) {
    inside_.fetch_add(1);
    if (paused_.load() == 0) return;
    leave();
    paused_.wait(1);
  }
}

void Traffic::leave() noexcept {
  if (inside_.fetch_sub(1) == 1 && paused_.load() != 0) inside_.notify_all();
}

void Traffic::pause() noexcept {
  paused_.store(1);
  for (std::uint32_t inside = inside_.load(); inside != 0; inside = inside_.load()) {
    inside_.wait(inside);
  }
}

void Traffic::resume() noexcept {
  paused_.store(0);
  paused_.notify_all();
}

void ForkAware::enlist() {
  ForkHandlers& handlers = ForkHandlers::instance();
  const base::Mutex::Scoped lock{handlers.mutex};
  handlers.aware.push_back(this);
}

void ForkAware::delist() noexcept {
  ForkHandlers& handlers = ForkHandlers::instance();
  const base::Mutex::Scoped lock{handlers.mutex};
  std::erase(handlers.aware, this);
}

Descriptor::Descriptor(const char* path, int flags, unsigned mode) noexcept
    : generation_(base::fork_generation()) {
  ForkHandlers& handlers = ForkHandlers::instance();
  const base::Mutex::Scoped lock{handlers.mutex};
  fd_ = ::open(path, flags | O_CLOEXEC, mode);
  if (fd_ < 0) return;
  next_ = handlers.descriptors;
  if (next_ != nullptr) next_->previous_ = this;
  handlers.descriptors = this;
}

Descriptor::~Descriptor() {
  if (fd_ < 0 || base::forked_since(generation_)) return;
  ForkHandlers& handlers = ForkHandlers::instance();
  const base::Mutex::Scoped lock{handlers.mutex};
  (previous_ != nullptr ? previous_->next_ : handlers.descriptors) = next_;
  if (next_ != nullptr) next_->previous_ = previous_;
  ::close(fd_);
}

}  // namespace tenure::sqlite
