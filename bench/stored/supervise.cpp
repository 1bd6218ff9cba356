#include "bench/stored/supervise.hpp"

#include <linux/magic.h>
#include <sys/prctl.h>
#include <sys/statfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <stdexcept>
#include <system_error>
#include <thread>

#include "tests/kit/process.hpp"

namespace tenure::bench::stored {
namespace {

namespace fs = std::filesystem;

// NOLINTNEXTLINE(cppcoreguidelines-avoid-non-const-global-variables): questions take no argument.
fs::path directory;

long kind_of(const fs::path& path) {
  struct statfs facts{};
  return ::statfs(path.c_str(), &facts) == 0 ? static_cast<long>(facts.f_type) : 0;
}

bool in_memory(long kind) { return kind == TMPFS_MAGIC || kind == RAMFS_MAGIC; }

// Whether the user that runs a server can reach the directory.
bool open_to_others(const fs::path& place) {
  fs::path part;
  for (const fs::path& name : fs::absolute(place)) {
    part /= name;
    std::error_code unknown;
    const fs::perms perms = fs::status(part, unknown).permissions();
    if (unknown || (perms & fs::perms::others_exec) == fs::perms::none) return false;
  }
  return true;
}

// A temporary directory, also because the path of a Unix socket must be short. One in memory, or
// unreachable for other users, only if there is nothing else.
fs::path make_directory() {
  const char* const wanted = std::getenv("TMPDIR");  // NOLINT(concurrency-mt-unsafe)
  const std::array<fs::path, 3> places = {wanted == nullptr ? "" : wanted, "/tmp", "/var/tmp"};
  for (const bool any : {false, true}) {
    for (const fs::path& place : places) {
      if (place.empty()) continue;
      const bool good = !in_memory(kind_of(place)) && open_to_others(place);
      if (!good && !any) continue;
      std::string name = (place / "tenure_bench.XXXXXX").string();
      if (::mkdtemp(name.data()) == nullptr) continue;
      fs::permissions(name, fs::perms::owner_all | fs::perms::group_exec | fs::perms::others_exec);
      return name;
    }
  }
  throw std::runtime_error("no directory for temporary files: set TMPDIR");
}

sigset_t signals() {
  sigset_t set;
  ::sigemptyset(&set);
  for (const int signal : {SIGCHLD, SIGINT, SIGTERM, SIGHUP}) ::sigaddset(&set, signal);
  return set;
}

// Returns the status of the program; reaps processes that it left to us.
int wait_for(pid_t program, const sigset_t& set) {
  int interrupted = 0;
  for (;;) {
    int status = 0;
    for (pid_t ended = 0; (ended = ::waitpid(-1, &status, WNOHANG)) > 0;) {
      if (ended != program) continue;
      if (interrupted != 0) return 128 + interrupted;
      return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    }
    const int signal = ::sigwaitinfo(&set, nullptr);
    if (signal <= 0 || signal == SIGCHLD) continue;
    interrupted = signal;
    ::kill(program, SIGKILL);  // All other processes end with it (tests/kit).
  }
}

void kill_children() {
  const std::string self = std::to_string(::getpid());
  std::ifstream children{"/proc/self/task/" + self + "/children"};
  for (pid_t child = 0; children >> child;) ::kill(child, SIGKILL);
}

// Servers end by themselves; those that have not after a while are killed.
void reap_the_rest() {
  using namespace std::chrono_literals;
  const auto start = std::chrono::steady_clock::now();
  for (pid_t ended = 0; (ended = ::waitpid(-1, nullptr, WNOHANG)) >= 0;) {
    if (ended > 0) continue;
    const auto waited = std::chrono::steady_clock::now() - start;
    if (waited > 10s) return (void)std::fputs("processes of the benchmark are left\n", stderr);
    if (waited > 3s) kill_children();
    std::this_thread::sleep_for(5ms);
  }
}

int supervise(const std::function<int()>& program) {
  const sigset_t set = signals();
  sigset_t before;
  ::sigprocmask(SIG_BLOCK, &set, &before);
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);

  kit::Process child{[&](const kit::Line& /*line*/) {
    ::sigprocmask(SIG_SETMASK, &before, nullptr);
    std::exit(program());  // NOLINT(concurrency-mt-unsafe)
  }};
  const int status = wait_for(child.release(), set);
  reap_the_rest();
  return status;
}

}  // namespace

int supervised(const std::function<int()>& program) {
  try {
    directory = make_directory();
    const int status = supervise(program);
    std::error_code ignored;
    fs::remove_all(directory, ignored);
    return status;
  } catch (const std::exception& error) {
    (void)std::fprintf(stderr, "%s\n", error.what());
    return EXIT_FAILURE;
  }
}

const fs::path& scratch() { return directory; }

std::string scratch_kind() {
  switch (const long kind = kind_of(directory); kind) {
    case EXT4_SUPER_MAGIC: return "ext4";
    case XFS_SUPER_MAGIC: return "xfs";
    case BTRFS_SUPER_MAGIC: return "btrfs";
    case OVERLAYFS_SUPER_MAGIC: return "overlayfs";
    default: return in_memory(kind) ? "memory" : "file system " + std::to_string(kind);
  }
}

fs::path scratch_path(std::string_view name) {
  static int given = 0;
  // With the process id: each question counts for itself.
  return directory /
         (std::to_string(::getpid()) + "-" + std::to_string(++given) + "-" + std::string{name});
}

}  // namespace tenure::bench::stored
