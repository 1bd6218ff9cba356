// threads.hpp: threads that no signal of the program is delivered to.
#pragma once

#include <csignal>
#include <memory>
#include <thread>
#include <utility>

namespace tenure::stores {

// No signal of the program's is delivered to a thread that is started while one exists.
class QuietStart {
 public:
  QuietStart() noexcept {
    sigset_t all;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  QuietStart(const QuietStart&) = delete;
  QuietStart& operator=(const QuietStart&) = delete;
  ~QuietStart() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_{};
};

template <typename Body>
[[nodiscard]] std::thread quiet_thread(Body body) {
  const QuietStart quiet;
  return std::thread{std::move(body)};
}

}  // namespace tenure::stores
