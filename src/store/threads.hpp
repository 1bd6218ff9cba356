// threads.hpp: threads that no signal of the program is delivered to.
#pragma once

#include <csignal>
#include <memory>
#include <thread>
#include <utility>

namespace tenure::stores {

template <typename Body>
[[nodiscard]] std::thread quiet_thread(Body body) {
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  // The thread inherits the mask that it was started with.
  const auto restore = [](const sigset_t* mask) { ::pthread_sigmask(SIG_SETMASK, mask, nullptr); };
  const std::unique_ptr<const sigset_t, decltype(restore)> restored{&before, restore};
  return std::thread{std::move(body)};
}

}  // namespace tenure::stores
