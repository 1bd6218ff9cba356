// threads.hpp: threads that no signal of the program is delivered to.
#pragma once

#include <csignal>
#include <thread>
#include <utility>

namespace tenure::sqlite {

template <typename Body>
[[nodiscard]] std::thread quiet_thread(Body body) {
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  struct Restore {
    const sigset_t& mask;
    ~Restore() { ::pthread_sigmask(SIG_SETMASK, &mask, nullptr); }
  };
  const Restore restore{before};
  return std::thread{std::move(body)};
}

}  // namespace tenure::sqlite
