// no_threads.hpp: a process that can't start threads, as one that has reached its user's limit.
#pragma once

#include <grp.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <system_error>

#include "tests/kit/process.hpp"

namespace tenure::kit {

// The limit does not bind root: a forked child calls this first, and is an ordinary user for good.
inline void give_up_root() {
  const auto user = ordinary_user();
  if (!user) return;
  if (::setgroups(0, nullptr) != 0 || ::setgid(user->gid) != 0 || ::setuid(user->uid) != 0) {
    throw std::system_error(errno, std::generic_category(), "setuid");
  }
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // Another user was to be killed.
}

// While one exists, no thread can be started.
class NoNewThreads {
 public:
  NoNewThreads() {
    ::getrlimit(RLIMIT_NPROC, &before_);
    const rlimit none{.rlim_cur = 0, .rlim_max = before_.rlim_max};
    if (::setrlimit(RLIMIT_NPROC, &none) != 0) {
      throw std::system_error(errno, std::generic_category(), "setrlimit");
    }
  }
  NoNewThreads(const NoNewThreads&) = delete;
  NoNewThreads& operator=(const NoNewThreads&) = delete;
  ~NoNewThreads() { ::setrlimit(RLIMIT_NPROC, &before_); }

 private:
  rlimit before_{};
};

}  // namespace tenure::kit
