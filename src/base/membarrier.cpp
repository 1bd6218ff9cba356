#include "base/membarrier.hpp"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace tenure::base {
namespace {

long membarrier(int command) noexcept { return ::syscall(SYS_membarrier, command, 0, 0); }

}  // namespace

bool has_membarrier() noexcept {
  static const bool registered = membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) == 0 &&
                                 membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED) == 0;
  return registered;
}

void barrier_everywhere() noexcept {
  // The process registered before its first fork, or inherited the registration, so this can fail
  // only temporarily.
  while (membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED) != 0) {
    membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED);
  }
}

}  // namespace tenure::base
