#include "tenure/file_lock.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <mutex>
#include <string>
#include <system_error>

#include "tenure/error.hpp"

namespace tenure {
namespace {

using namespace std::chrono_literals;
using std::chrono::steady_clock;

constexpr std::chrono::nanoseconds first_pause = 1ms;
constexpr std::chrono::nanoseconds longest_pause = 50ms;

[[noreturn]] void fail(const char* what, const std::filesystem::path& file, int error) {
  throw Error(std::string{"cannot "} + what + " '" + file.string() +
              "': " + std::generic_category().message(error));
}

int open_file(const std::filesystem::path& file, FileLock::Kind kind) {
  constexpr int flags = O_CREAT | O_CLOEXEC | O_NOCTTY;
  const int access = kind == FileLock::Kind::flock ? O_RDONLY : O_RDWR;
  int descriptor = ::open(file.c_str(), access | flags, 0666);
  // A directory, or a file in a directory where this user may create none.
  if (descriptor < 0) descriptor = ::open(file.c_str(), access | O_CLOEXEC | O_NOCTTY);
  if (descriptor < 0) fail("open the file to lock", file, errno);
  return descriptor;
}

}  // namespace

FileLock::FileLock(const std::filesystem::path& file, Kind kind)
    : file_(file), descriptor_(open_file(file, kind)), kind_(kind) {}

FileLock& FileLock::operator=(FileLock&& other) noexcept {
  if (this != &other) {
    if (descriptor_ >= 0) ::close(descriptor_);
    file_ = std::move(other.file_);
    descriptor_ = std::exchange(other.descriptor_, -1);
    kind_ = other.kind_;
  }
  return *this;
}

// Closes it, and does not unlock: a child that has a copy keeps the lock.
FileLock::~FileLock() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

bool FileLock::apply(Mode mode, bool waits) {
  int result = 0;
  const bool shared = mode == Mode::shared;
  if (kind_ == Kind::flock) {
    int how = shared ? LOCK_SH : LOCK_EX;
    if (mode == Mode::unlocked) how = LOCK_UN;
    result = ::flock(descriptor_, waits ? how : how | LOCK_NB);
  } else {
    struct flock whole{};
    whole.l_type = static_cast<short>(shared ? F_RDLCK : F_WRLCK);
    if (mode == Mode::unlocked) whole.l_type = static_cast<short>(F_UNLCK);
    whole.l_whence = SEEK_SET;
    // Of the open file, not of the process: closing another copy of the file does not end it.
    result = ::fcntl(descriptor_, waits ? F_OFD_SETLKW : F_OFD_SETLK, &whole);
  }
  if (result == 0) return true;
  if (errno == EWOULDBLOCK || errno == EACCES || errno == EAGAIN || errno == EINTR) return false;
  fail("lock the file", file_, errno);
}

void FileLock::wait(Mode mode) {
  while (!apply(mode, true)) {
  }
}

bool FileLock::try_once(Mode mode) { return apply(mode, false); }

bool FileLock::wait_for(Mode mode, std::chrono::nanoseconds time, const std::stop_token& stop) {
  const auto until = detail::saturating_add(steady_clock::now(), time);
  std::mutex mutex;
  std::condition_variable_any stopped;
  std::unique_lock lock{mutex};
  for (auto pause = first_pause; !stop.stop_requested();
       pause = std::min(pause * 2, longest_pause)) {
    if (apply(mode, false)) return true;
    const std::chrono::nanoseconds left = until - steady_clock::now();
    if (left <= 0ns) return false;
    stopped.wait_for(lock, stop, std::min(left, pause), [] { return false; });
  }
  return false;
}

void FileLock::unlock() { apply(Mode::unlocked, false); }

}  // namespace tenure
