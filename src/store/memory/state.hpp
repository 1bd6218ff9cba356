// state.hpp: the state that a memory store, its watches, its sessions and its threads share.
//
// A watch is in one of these at a time:
//
//   armed_ --- something it waits for ---> due_ --- service thread ---> running_ ---> gone
//     '------------ destroyed ---------------'-----> gone
//
// Invariants
//   1. Hooks, notices and callbacks are called and destroyed with the mutex free.
//   2. An apply first makes everything in posted_, in order, without unlocking the mutex.
//
// Thread safety: all of it, except stop(), which only the destructor of the store calls. The
// threads share ownership, so the state outlives a store that is destroyed by one of its notices.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "base/annotations.hpp"
#include "base/mutex.hpp"
#include "store/memory/table.hpp"
#include "tenure/memory_store.hpp"

namespace tenure {

struct MemoryStore::State : std::enable_shared_from_this<State> {
  struct Watcher {
    WatchFor what;
    Notice notice;
    std::uint64_t number = 0;  // Key in armed_.
  };
  struct Life {
    bool ended = false;
    std::stop_source lost;
  };

  State(Clock clock, Order order);

  Outcome apply(const Txn& txn);
  void post(Txn txn, const Posted& done) noexcept;
  std::shared_ptr<Watcher> watch(WatchFor what, Notice notice);
  void unwatch(const std::shared_ptr<Watcher>& watcher) noexcept;

  std::pair<std::string, std::shared_ptr<Life>> open(const SessionOptions& options);
  void end(const std::string& id, Life& life);
  bool alive(std::string_view id);
  // Returns the session; throws BadRequest if no such session is alive.
  std::shared_ptr<Life> kill(std::string_view id, bool ended);
  void ring(std::shared_ptr<Life> life);

  Instant now();
  std::vector<Fact> facts();
  void advance(std::chrono::nanoseconds by);
  void settle();
  void fail_next(std::size_t count, Fault fault);
  void hold_notices(bool hold);
  void set_hook(std::function<void(const Txn&)> hook);
  void stop();

 private:
  using Lock = base::Mutex::Scoped;
  struct Result {
    Outcome outcome;
    std::exception_ptr error;
  };
  struct Waiting {
    Txn txn;
    Posted done;
  };
  struct Made {
    Posted done;
    Result result;
  };

  void run_hook(const Txn& txn);
  Result step(const Txn& txn) TENURE_REQUIRES(mutex_);
  Outcome write(const Txn& txn) TENURE_REQUIRES(mutex_);
  std::vector<Made> make_posted() TENURE_REQUIRES(mutex_);
  void tell(std::vector<Made> made);

  Instant time() const TENURE_REQUIRES(mutex_);
  bool is_due(const WatchFor& what, std::uint64_t applies) const TENURE_REQUIRES(mutex_);
  // Moves watches that are due to due_. The first `applies` were checked before.
  void collect(std::uint64_t applies) TENURE_REQUIRES(mutex_);

  void start() TENURE_REQUIRES(mutex_);
  void serve();
  void deliver() noexcept TENURE_REQUIRES(mutex_);
  void nap() TENURE_REQUIRES(mutex_);
  bool busy() const TENURE_REQUIRES(mutex_);

  const Clock clock_;
  const Instant base_;  // What the clock showed when CLOCK_BOOTTIME was 0; the start, if virtual.

  base::Mutex mutex_;
  std::condition_variable_any work_;  // Wakes the service thread.
  std::condition_variable_any idle_;  // Wakes all others: something was done.
  memory::Table table_ TENURE_GUARDED_BY(mutex_);
  std::chrono::nanoseconds advanced_ TENURE_GUARDED_BY(mutex_){0};
  std::deque<Waiting> posted_ TENURE_GUARDED_BY(mutex_);
  std::map<std::uint64_t, std::shared_ptr<Watcher>> armed_ TENURE_GUARDED_BY(mutex_);
  std::deque<std::shared_ptr<Watcher>> due_ TENURE_GUARDED_BY(mutex_);
  std::shared_ptr<Watcher> running_ TENURE_GUARDED_BY(mutex_);
  std::map<std::string, std::shared_ptr<Life>, std::less<>> sessions_ TENURE_GUARDED_BY(mutex_);
  std::deque<Fault> faults_ TENURE_GUARDED_BY(mutex_);
  std::function<void(const Txn&)> hook_ TENURE_GUARDED_BY(mutex_);
  std::uint64_t last_watch_ TENURE_GUARDED_BY(mutex_) = 0;
  std::uint64_t last_session_ TENURE_GUARDED_BY(mutex_) = 0;
  std::size_t telling_ TENURE_GUARDED_BY(mutex_) = 0;  // Posts whose callback has not run yet.
  std::size_t ringing_ TENURE_GUARDED_BY(mutex_) = 0;  // Threads that fire lost().
  bool held_ TENURE_GUARDED_BY(mutex_) = false;
  bool stopping_ TENURE_GUARDED_BY(mutex_) = false;
  std::thread service_ TENURE_GUARDED_BY(mutex_);
};

}  // namespace tenure
