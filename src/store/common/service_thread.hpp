// service_thread.hpp: one thread of a store, from its first use to the end of the store.
//
// No signal of the program is delivered to it. The body shares ownership of what it uses, because a
// store may be destroyed by a callback that runs on the thread itself: the thread is then detached
// and ends after the callback; in every other case end() joins it.
//
// Thread safety: start() and end() one at a time: the owner's mutex is held around start(), and no
// start() comes after the owner has begun to stop.
#pragma once

#include <thread>
#include <utility>

#include "store/threads.hpp"

namespace tenure::stores {

class ServiceThread {
 public:
  // Nothing if it has been started. Throws std::system_error if there can be no more threads; the
  // next call tries again.
  template <typename Body>
  void start(Body body) {
    if (!thread_.joinable()) thread_ = quiet_thread(std::move(body));
  }
  [[nodiscard]] bool started() const noexcept { return thread_.joinable(); }

  // The owner has told the body to return.
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
