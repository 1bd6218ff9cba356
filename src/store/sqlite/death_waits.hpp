// death_waits.hpp: waits for the death of sessions: one thread per session, blocked in the kernel
// on the session's byte.
//
//   blocked --- the session's lock ends ---> calls `ended` ---> finished --- await() ---> joined
//      '------- stop() cancels it ---> joined
//
// Nothing else wakes a thread that waits for a lock, so stop() uses pthread_cancel(). The thread
// can be cancelled in fcntl() only, where it owns nothing but perhaps the lock; stop() releases
// that.
//
// Thread safety: all of it. `ended` is called with no lock held.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/annotations.hpp"
#include "base/mutex.hpp"
#include "store/sqlite/side_file.hpp"

namespace tenure::sqlite {

class DeathWaits {
 public:
  using Ended = std::function<void(const std::string& session)>;
  DeathWaits(std::shared_ptr<Descriptor> probe, Ended ended)
      : probe_(std::move(probe)), ended_(std::move(ended)) {}
  DeathWaits(const DeathWaits&) = delete;
  DeathWaits& operator=(const DeathWaits&) = delete;
  ~DeathWaits() { stop(); }

  // Calls `ended` when the session's byte is not locked any more; once for all calls until then. On
  // an error of the file system, or where no thread can be started, it is never called.
  void await(const std::string& session, Byte byte);
  // When it returns no thread is left. Must not be called by `ended`.
  void stop();

 private:
  struct Waiting {
    std::thread thread;
    Byte byte;
  };
  void wait(const std::string& session, Byte byte);

  const std::shared_ptr<Descriptor> probe_;
  const Ended ended_;
  base::Mutex mutex_;
  std::map<std::string, Waiting> waiting_ TENURE_GUARDED_BY(mutex_);
  std::vector<std::thread> finished_ TENURE_GUARDED_BY(mutex_);
  bool stopped_ TENURE_GUARDED_BY(mutex_) = false;
};

}  // namespace tenure::sqlite
