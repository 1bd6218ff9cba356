// threads.hpp: threads that receive no signals of the program.
#pragma once

#include <csignal>
#include <memory>
#include <thread>
#include <utility>

namespace tenure::stores {

// While one exists, threads that this thread starts receive no signals of the program.
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
