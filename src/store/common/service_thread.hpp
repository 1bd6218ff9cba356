// service_thread.hpp: one thread of a store, from its first use to the end of the store.
//
// It receives no signals of the program. The body shares ownership of what it uses, because a
// callback on the thread itself may destroy the store: the thread is then detached and ends after
// the callback. In every other case end() joins it.
//
// Thread safety: calls must not overlap. The owner's mutex is held around start(), and start() is
// not called after the owner has begun to stop.
#pragma once

#include <thread>
#include <utility>

#include "store/threads.hpp"

namespace tenure::stores {

class ServiceThread {
 public:
  // No effect if the thread was started before. Throws std::system_error if no thread can be
  // started; the next call tries again.
  template <typename Body>
  void start(Body body) {
    if (!thread_.joinable()) thread_ = quiet_thread(std::move(body));
  }
  [[nodiscard]] bool started() const noexcept { return thread_.joinable(); }

  // The owner must have told the body to return.
  void end() {
    if (!thread_.joinable()) return;
    if (thread_.get_id() == std::this_thread::get_id()) {
      thread_.detach();
    } else {
      thread_.join();
    }
  }

 private:
  std::thread thread_;
};

}  // namespace tenure::stores
