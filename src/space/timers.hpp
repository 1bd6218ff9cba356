// timers.hpp: one thread that calls functions when a clock shows their time, and does nothing else.
//
// It counts the deadlines of holds down: no slow store, slow callback or lost connection delays a
// timer. A test may move the clock: wake() makes the thread read it again. While timers are set,
// the thread also reads the clock regularly, since the clock goes on while the machine sleeps and
// condition variables do not.
//
// Thread safety: all calls. Calls of one timer never overlap. The destructor joins the thread; a
// call must not destroy its Timers.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <thread>
#include <utility>

#include "base/annotations.hpp"
#include "base/mutex.hpp"
#include "tenure/store.hpp"

namespace tenure::space {

class Timers {
 public:
  using Clock = std::function<Instant()>;  // Must neither throw nor block.
  using Call = std::function<void()>;      // The same; runs on the thread, with no lock held.

  explicit Timers(Clock clock) : clock_(std::move(clock)) {}
  Timers(const Timers&) = delete;
  Timers& operator=(const Timers&) = delete;
  ~Timers();

  // Replaces the timer `id`. Throws std::system_error if no thread can be started.
  void set(std::uint64_t id, Instant at, Call call);
  // Does not wait for a call that has begun.
  void cancel(std::uint64_t id) noexcept;
  void wake() noexcept;

 private:
  struct Timer {
    Instant at;
    Call call;
  };
  void serve();
  void run_first() TENURE_REQUIRES(mutex_);

  const Clock clock_;
  base::Mutex mutex_;
  std::condition_variable_any changed_;
  std::map<std::uint64_t, Timer> timers_ TENURE_GUARDED_BY(mutex_);
  std::set<std::pair<Instant, std::uint64_t>> order_ TENURE_GUARDED_BY(mutex_);
  bool stopping_ TENURE_GUARDED_BY(mutex_) = false;
  std::thread thread_ TENURE_GUARDED_BY(mutex_);
};

}  // namespace tenure::space
