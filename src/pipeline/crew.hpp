// crew.hpp: the driver of a Pipeline: threads that run callables and jobs, and steal tasks.
//
// A worker runs a task, releases its dependents in the plan, runs the one of the highest rank next
// and puts the others into its deque. A worker without tasks takes some of the first (`roots`),
// then what other threads left in the queue, then what it can steal; then it sleeps.
//
// Slots. A worker needs a slot to run tasks, and keeps it from task to task. A job that suspends
// takes the slot along, until it ends. A worker gives its slot back before it sleeps or parks.
//
// Why nothing is lost. Each pair is "write, full barrier, read" on both sides; the side that runs
// often has the light side of an AsymmetricFence, which the other's heavy side completes:
//   push to a deque,   then read idle_      | join sleepers_ (idle_), then look at all deques
//   push to the queue, then read idle_      | the same
//   set `starting`,    then read signals_   | set signals_, then wait for `starting` to be false
//   delay a task,      then read signals_   | set cancelling, then end all tasks that do not run
//
// Thread safety: all calls but run() and observe(). control_mutex_ comes before all other mutexes;
// no two of the others are held at a time. No mutex is held while code of the user runs.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/annotations.hpp"
#include "base/backoff.hpp"
#include "base/membarrier.hpp"
#include "base/mutex.hpp"
#include "base/thread_group.hpp"
#include "pipeline/deque.hpp"
#include "pipeline/ends.hpp"
#include "pipeline/plan.hpp"
#include "pipeline/timers.hpp"
#include "tenure/hold.hpp"
#include "tenure/pipeline.hpp"

namespace tenure::pipeline {

class Crew final : public detail::JobListener {
 public:
  explicit Crew(PipelineOptions options);
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;
  ~Crew();

  Index add(std::string_view name, detail::Work work, const TaskOptions& options);
  Index add(detail::Work work, std::span<const TaskId> after);
  bool remove(Index task, Dependents dependents);
  void pause();
  void resume();
  void cancel(Running running);
  void set_concurrency(unsigned concurrency);
  void observe(PipelineObserver* observer) noexcept { observer_ = observer; }
  void prepare();
  void run();

  [[nodiscard]] const Plan& plan() const noexcept { return plan_; }
  [[nodiscard]] std::optional<Index> find(std::string_view name) const;
  [[nodiscard]] std::string name(Index task) const;
  [[nodiscard]] std::exception_ptr error(Index task) const;
  [[nodiscard]] std::uint64_t observer_errors() const noexcept { return observer_errors_; }

  void job_ended(TaskId task, std::exception_ptr error) noexcept override;

 private:
  // What a task has beside its record, if anything but a plain callable.
  struct Extra {
    std::optional<std::chrono::nanoseconds> timeout;
    unsigned max_retries = 0;
    base::Backoff backoff{std::chrono::nanoseconds{0}, std::chrono::nanoseconds{0}};
    std::vector<Claim> claims;
    std::optional<Locker> locker;
    // Of the attempt that runs, or waits for its claims.
    std::stop_source stop{std::nostopstate};  // Changed and read under extras_mutex_.
    Hold hold;                                // Passed from thread to thread with the task.
    std::unique_ptr<std::stop_callback<std::function<void()>>> on_lost;
  };

  struct alignas(64) Worker {
    Worker(base::AsymmetricFence fence, std::uint32_t place) : deque(fence), number(place) {}
    Deque deque;
    std::uint32_t number;
    bool has_slot = false;
    std::size_t ended = 0;  // Tasks that are not yet taken off unfinished_.
    std::atomic<bool> starting{false};
    alignas(64) std::atomic<std::uint64_t> roots{0};  // First and end in roots_, 32 bits each.
    alignas(64) std::atomic<std::uint32_t> woken{0};  // A futex.
    std::atomic<std::thread::id> thread;
  };

  enum Signal : std::uint8_t { paused = 1, cancelling = 2, finished = 4, limited = 8 };

  // control.cpp
  Index append(detail::Work work) TENURE_REQUIRES(control_mutex_);
  void keep_extra(Index task, const TaskOptions& options) TENURE_REQUIRES(control_mutex_);
  // An end: that of a task that ends at once. The caller tells it.
  std::optional<State> link(Index task, std::span<const Index> needs)
      TENURE_REQUIRES(control_mutex_);
  Index known(TaskId task) const TENURE_REQUIRES(control_mutex_);
  [[noreturn]] void fail_unknown(const std::string& task, const std::string& needed) const
      TENURE_REQUIRES(control_mutex_);
  bool remove_now(Index task, Dependents dependents);
  void cancel_all(std::size_t size, Running running);
  void tell_end(Index task, State end);
  [[nodiscard]] std::string name_of(Index task) const TENURE_REQUIRES(control_mutex_);
  void raise(Signal signal) { signals_.fetch_or(signal); }
  void wait_for_starts();
  [[nodiscard]] bool on_worker() const;
  void start_worker();
  void start_workers(unsigned count) TENURE_REQUIRES(control_mutex_);

  // worker.cpp
  void work(Worker& worker);
  Index execute(Worker& worker, Index task);
  Index refuse(Worker& worker, Index task);
  Index next_task(Worker& worker);
  Index take_roots(Worker& worker);
  static bool steal_roots(Worker& worker, Worker& victim);
  Index steal(Worker& worker);
  Index take_queued();
  [[nodiscard]] bool work_visible() const;
  void sleep(Worker& worker);
  void park(Worker& worker);
  bool try_take_slot();
  void give_slot();
  void flush(Worker& worker);
  void wake_one();
  void queue(Index task);

  // attempt.cpp
  // Ends an attempt; returns how many tasks ended with it. `ready` gets those that may start.
  std::size_t end_attempt(Index task, std::exception_ptr error, std::vector<Index>& ready);
  std::size_t after_end(Index task, Plan::Word ended, std::vector<Index>& ready);
  bool retry(Index task, Plan::Word word);
  bool run_attempt(Worker& worker, Index task, std::exception_ptr& error);
  void claim(Index task);
  void claimed(Index task, std::optional<Hold> hold, std::exception_ptr error) noexcept;
  void stop_attempt(Index task);
  void drop_claims(Index task);
  void add_timer(const Due& due);
  void timers_due();
  void arm() TENURE_REQUIRES(timers_mutex_);
  void count_ended(std::size_t count);
  void finish_run();
  void leave();
  void keep_error(Index task, std::exception_ptr error);
  template <class Call>
  void tell(Call call) noexcept {
    if (observer_ == nullptr) return;
    try {
      call(*observer_);
    } catch (...) {
      observer_errors_.fetch_add(1, std::memory_order_relaxed);
    }
  }
  [[nodiscard]] Extra& extra(Index task) noexcept { return *extras_[plan_.extra(task)]; }

  Plan plan_;
  const base::AsymmetricFence fence_;
  const std::shared_ptr<PipelineClock> clock_;
  PipelineObserver* observer_ = nullptr;
  std::atomic<std::uint64_t> observer_errors_{0};

  alignas(64) std::atomic<std::uint32_t> signals_{0};
  std::atomic<std::uint32_t> idle_{0};  // The size of sleepers_.
  std::atomic<std::uint32_t> worker_count_{0};
  std::atomic<std::size_t> queued_count_{0};  // The size of queued_.
  std::vector<Index> roots_;
  std::vector<std::unique_ptr<Worker>> workers_;  // max_threads, set up to worker_count_.
  alignas(64) std::atomic<std::size_t> unfinished_{0};
  alignas(64) std::atomic<std::int32_t> free_slots_{0};
  std::atomic<std::uint32_t> parked_{0};

  mutable base::Mutex control_mutex_;
  std::unordered_map<std::string, Index> by_name_ TENURE_GUARDED_BY(control_mutex_);
  std::unordered_map<Index, const std::string*> names_ TENURE_GUARDED_BY(control_mutex_);
  std::vector<std::pair<Index, std::string>> needs_ TENURE_GUARDED_BY(control_mutex_);
  std::vector<std::pair<Index, Dependents>> removals_ TENURE_GUARDED_BY(control_mutex_);
  unsigned concurrency_ TENURE_GUARDED_BY(control_mutex_);
  bool running_ TENURE_GUARDED_BY(control_mutex_) = false;
  std::atomic<bool> ran_{false};                               // Set with control_mutex_ held.
  Chunks<std::unique_ptr<Extra>, 12, Plan::max_size> extras_;  // Appended to under control_mutex_.

  base::Mutex extras_mutex_;
  std::atomic<bool> stop_running_{false};  // Cancelled with Running::stop.

  base::Mutex idle_mutex_;
  std::vector<Worker*> sleepers_ TENURE_GUARDED_BY(idle_mutex_);

  base::Mutex gate_mutex_;
  std::condition_variable_any gate_changed_;
  std::uint32_t in_flight_ TENURE_GUARDED_BY(gate_mutex_) = 0;  // Suspended jobs, claims.

  base::Mutex queue_mutex_;
  std::deque<Index> queued_ TENURE_GUARDED_BY(queue_mutex_);

  base::Mutex timers_mutex_;
  Timers timers_ TENURE_GUARDED_BY(timers_mutex_);
  std::mt19937_64 random_ TENURE_GUARDED_BY(timers_mutex_);

  mutable base::Mutex errors_mutex_;
  std::unordered_map<Index, std::exception_ptr> errors_ TENURE_GUARDED_BY(errors_mutex_);

  base::ThreadGroup threads_;
};

}  // namespace tenure::pipeline
