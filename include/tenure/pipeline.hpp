// pipeline.hpp: tasks that start the moment the last task that they need is done.
//
//   tenure::Pipeline pipeline{{.concurrency = 4}};
//   pipeline.add("build", [] { build(); });
//   pipeline.add("publish", [] { publish(); }, {.needs = {"build"}, .retry = {.max = 4}});
//   tenure::PipelineResult result = pipeline.run();
//
//   state of a task | means                                    | left by
//   ----------------+------------------------------------------+----------------------------------
//   waiting         | a task that it needs has not ended, or   | claiming, running; blocked,
//                   | it is in line for a slot                 | skipped, cancelled
//   claiming        | in the queues of its claims; no slot     | running; skipped, cancelled
//   running         | an attempt runs; holds a slot            | delayed; any end
//   delayed         | waits for its next attempt; no slot      | running; skipped, cancelled
//   ----------------+------------------------------------------+----------------------------------
//   done            | an attempt returned                      | an end is final
//   failed          | the last attempt threw, or timed out     |
//   blocked         | needs, directly or not, a failed task    |
//   skipped         | was removed, or a task that it needs was |
//   cancelled       | cancel() came first                      |
//
// Invariants
//  1. run() returns when every task has ended, each in exactly one way.
//  2. A task starts when all tasks that it needs are done (or were removed with
//     Dependents::release) and never before. Of tasks that could start, those of longer critical
//     paths go first; between threads that is approximate.
//  3. At most `concurrency` tasks run at a time.
//  4. No task starts after pause() has returned and before resume(); none starts after cancel() was
//     called, and none runs after cancel() has returned.
//
// Thread safety: all calls but run() and observe(), from any thread, also from tasks and observers.
// pause() and cancel() do not wait for the task, or the observer, that calls them. No signal
// handlers and no global state: several pipelines may run at once.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tenure/claim.hpp"
#include "tenure/detail/work.hpp"
#include "tenure/error.hpp"
#include "tenure/job.hpp"
#include "tenure/locker.hpp"

namespace tenure {

namespace pipeline {
class Crew;
}  // namespace pipeline

// An attempt was still running after the task's timeout.
class TaskTimeout : public Error {
 public:
  using Error::Error;
};

// The task lost its claims while it ran, for instance because an operator evicted them.
class ClaimsLost : public Error {
 public:
  using Error::Error;
};

// What a pipeline takes its time from. One pipeline at a time uses it.
class PipelineClock {
 public:
  PipelineClock() = default;
  PipelineClock(const PipelineClock&) = delete;
  PipelineClock& operator=(const PipelineClock&) = delete;
  virtual ~PipelineClock() = default;

  [[nodiscard]] virtual std::chrono::nanoseconds now() = 0;
  // Calls `wake` once, on any thread but this one, when now() has reached `at`. Replaces an earlier
  // call that has not been made.
  virtual void arm(std::chrono::nanoseconds at, std::function<void()> wake) = 0;
  // When this returns, no `wake` runs, and none will.
  virtual void disarm() = 0;
};

enum class TaskEnd : std::uint8_t { done, failed, blocked, skipped, cancelled };
[[nodiscard]] std::string_view text_of(TaskEnd end) noexcept;

// Is told what happens, on the threads of the pipeline, for one task in order. What it throws is
// counted (PipelineResult::observer_errors) and has no other effect. It must not block: tasks wait.
class PipelineObserver {
 public:
  PipelineObserver() = default;
  PipelineObserver(const PipelineObserver&) = delete;
  PipelineObserver& operator=(const PipelineObserver&) = delete;
  virtual ~PipelineObserver() = default;

  virtual void started(TaskId task, unsigned attempt) = 0;
  // The attempt failed; the next one begins after `delay`.
  virtual void retries(TaskId task, unsigned attempt, std::chrono::nanoseconds delay);
  virtual void ended(TaskId task, TaskEnd end) = 0;
};

// What becomes of the tasks that need a removed one.
enum class Dependents : std::uint8_t {
  skip,     // They are skipped too, and those that need them.
  release,  // They do not need it any more.
};

// What becomes of the tasks that run when a pipeline is cancelled.
enum class Running : std::uint8_t {
  stop,    // Their stop tokens are stopped.
  finish,  // They may finish.
};

// After a failed attempt the task waits for uniform(0, min(base * 2^attempt, cap)).
struct TaskRetry {
  unsigned max = 0;  // Attempts after the first one.
  std::chrono::nanoseconds base = std::chrono::seconds{1};
  std::chrono::nanoseconds cap = std::chrono::seconds{60};
};

// NOLINTBEGIN(readability-redundant-member-init): designated initializers may leave them out.
struct TaskOptions {
  std::vector<std::string> needs{};  // Names, of tasks that may be added later but before run().
  std::vector<TaskId> after{};       // The same, by number.
  // Of one attempt, from its start. A task can't be ended by force: its stop token is stopped, and
  // the attempt counts as failed when it ends, whatever it returns.
  std::optional<std::chrono::nanoseconds> timeout{};
  TaskRetry retry{};
  // Held while an attempt runs: granted together, in the space's queue, before it takes a slot.
  std::vector<Claim> claims{};
  std::optional<Locker> locker{};  // Where; required if there are claims.
  // How long it will take, in any unit that all tasks share: for the order of starts.
  float estimate = 1;
};

struct PipelineOptions {
  unsigned concurrency = 0;                // 0: as many as there are cores.
  std::optional<std::uint64_t> seed{};     // Of retry delays. Not set: random.
  std::shared_ptr<PipelineClock> clock{};  // Null: the system's monotonic clock.
  bool membarrier = true;                  // False: ordinary fences, as where the kernel has none.
};
// NOLINTEND(readability-redundant-member-init)

// How a run ended. Refers to the tasks by number; keeps what it needs of the pipeline alive.
class PipelineResult {
 public:
  [[nodiscard]] bool ok() const;  // Every task is done.
  [[nodiscard]] std::size_t count(TaskEnd end) const;
  [[nodiscard]] std::vector<TaskId> tasks(TaskEnd end) const;
  [[nodiscard]] TaskEnd end(TaskId task) const;
  [[nodiscard]] std::string name(TaskId task) const;  // "#7" for a task without one.
  // The failed task because of which this one was blocked.
  [[nodiscard]] std::optional<TaskId> cause(TaskId task) const;
  // What the last attempt of a failed task threw; null for others.
  [[nodiscard]] std::exception_ptr error(TaskId task) const;
  [[nodiscard]] std::uint64_t observer_errors() const;

 private:
  friend class Pipeline;
  explicit PipelineResult(std::shared_ptr<const pipeline::Crew> crew) noexcept
      : crew_(std::move(crew)) {}
  std::shared_ptr<const pipeline::Crew> crew_;
};

class Pipeline {
 public:
  static constexpr std::size_t max_tasks = std::size_t{1} << 24U;
  static constexpr unsigned max_concurrency = 4096;
  static constexpr unsigned max_threads = 256;  // More can run at a time only if they are jobs.

  explicit Pipeline(PipelineOptions options = {});
  Pipeline(Pipeline&&) noexcept = default;
  Pipeline& operator=(Pipeline&&) noexcept = default;
  Pipeline(const Pipeline&) = delete;
  Pipeline& operator=(const Pipeline&) = delete;
  ~Pipeline();

  // Throws BadRequest for a name that is taken, and for a task that it needs and that is not there.
  // While the pipeline runs, all that it needs must have been added before; a task that needs one
  // that has ended otherwise than done ends at once, as if it had been there before.
  template <detail::AnyWork F>
  TaskId add(std::string_view name, F work, const TaskOptions& options = {}) {
    return add_task(name, detail::Work{std::move(work)}, options);
  }
  // Without a name: 64 bytes, and 4 for each task that it needs.
  template <detail::AnyWork F>
  TaskId add(F work, std::span<const TaskId> after = {}) {
    return add_task(detail::Work{std::move(work)}, after);
  }

  // The task will not start; if it runs, its stop token is stopped and it ends as skipped, whatever
  // it returns, and its dependents are dealt with then. False: it had ended, or is not there.
  bool remove(TaskId task, Dependents dependents = Dependents::skip);
  bool remove(std::string_view name, Dependents dependents = Dependents::skip);

  void pause();
  void resume();
  void cancel(Running running = Running::stop);
  // Throws BadRequest for 0.
  void set_concurrency(unsigned concurrency);

  // Before run(); null: none. It must outlive the run.
  void observe(PipelineObserver* observer);

  // What run() does first: throws BadRequest if a name in `needs` is unknown (and names the nearest
  // one) or tasks need each other in a cycle (and prints it).
  void prepare();
  // Once. The calling thread runs tasks too.
  PipelineResult run();

  [[nodiscard]] std::optional<TaskId> find(std::string_view name) const;
  [[nodiscard]] std::string name(TaskId task) const;

 private:
  TaskId add_task(std::string_view name, detail::Work work, const TaskOptions& options);
  TaskId add_task(detail::Work work, std::span<const TaskId> after);

  std::shared_ptr<pipeline::Crew> crew_;
};

}  // namespace tenure
