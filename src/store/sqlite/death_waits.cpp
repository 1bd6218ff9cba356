#include "store/sqlite/death_waits.hpp"

#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "store/threads.hpp"

namespace tenure::sqlite {

void DeathWaits::await(const std::string& session, Byte byte) {
  std::vector<std::thread> finished;
  {
    const base::Mutex::Scoped lock{mutex_};
    finished.swap(finished_);
    if (!stopped_ && !waiting_.contains(session)) {
      try {
        std::thread thread = stores::quiet_thread([this, session, byte] { wait(session, byte); });
        waiting_.emplace(session, Waiting{.thread = std::move(thread), .byte = byte});
      } catch (const std::system_error&) {  // NOLINT(bugprone-empty-catch)
        // The check of once a second remains.
      }
    }
  }
  for (std::thread& thread : finished) thread.join();
}

// Not noexcept, nor anything that it calls before cancellation is off: a cancelled thread is
// unwound like an exception.
void DeathWaits::wait(const std::string& session, Byte byte) {
  struct flock lock{};
  lock.l_type = F_RDLCK;
  lock.l_whence = SEEK_SET;
  lock.l_start = static_cast<off_t>(byte);
  lock.l_len = 1;
  int result = 0;
  do {
    result = ::fcntl(probe_->get(), F_OFD_SETLKW, &lock);
  } while (result != 0 && errno == EINTR);
  int before = 0;
  ::pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
  if (result == 0) {
    unlock_byte(probe_->get(), byte);
    ended_(session);
  }
  const base::Mutex::Scoped guard{mutex_};
  const auto own = waiting_.find(session);
  if (own == waiting_.end()) return;  // stop() joins it.
  finished_.push_back(std::move(own->second.thread));
  waiting_.erase(own);
}

void DeathWaits::stop() {
  std::map<std::string, Waiting> waiting;
  std::vector<std::thread> finished;
  {
    const base::Mutex::Scoped lock{mutex_};
    stopped_ = true;
    waiting.swap(waiting_);
    finished.swap(finished_);
  }
  for (auto& [session, one] : waiting) ::pthread_cancel(one.thread.native_handle());
  for (auto& [session, one] : waiting) {
    one.thread.join();
    unlock_byte(probe_->get(), one.byte);  // It may have been cancelled after it got the lock.
  }
  for (std::thread& thread : finished) thread.join();
}

}  // namespace tenure::sqlite
