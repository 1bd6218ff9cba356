#include "bench/syncs.hpp"

#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>

namespace {
constinit std::atomic<std::uint64_t> count = 0;

int counted(long call, int file) {
  count.fetch_add(1, std::memory_order_relaxed);
  return static_cast<int>(::syscall(call, file));
}
}  // namespace

namespace tenure::bench {
std::uint64_t syncs() noexcept { return count.load(std::memory_order_relaxed); }
}  // namespace tenure::bench

// The program's definitions take precedence over those of the C library, for SQLite too.
extern "C" {
int fsync(int file) { return counted(SYS_fsync, file); }
int fdatasync(int file) { return counted(SYS_fdatasync, file); }
}
