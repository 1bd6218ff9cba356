// loop.hpp: the driver for tasks that are not code of this process, such as commands: one thread,
// and strict priority.
//
// A Runner says what a task does. The loop tells it to start attempts, highest rank first, and
// waits for what it reports. The loop does all the rest: slots, retries, timeouts, blocking.
//
//   Loop ──start, stop, claim──► Runner
//        ◄──wait(): ended, claimed, or the time──
//
// The invariants are those of tenure/pipeline.hpp. A Runner may call pause(), cancel(), remove()
// and the others from inside of wait(): they return at once and hold from then on. cancel() does
// not wait: run() returns when the last attempt has ended.
//
// Thread safety: none; everything on the thread that calls run().
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <random>
#include <span>
#include <vector>

#include "base/backoff.hpp"
#include "pipeline/plan.hpp"
#include "pipeline/timers.hpp"
#include "tenure/pipeline.hpp"

namespace tenure::pipeline {

enum class StopReason : std::uint8_t { timeout, cancel, remove, lost };

class Runner {
 public:
  struct Report {
    enum class Kind : std::uint8_t {
      claimed,  // The task has what claim() asked for.
      done,
      failed,
      skipped,  // It has nothing to do; its dependents need it no more.
    };
    Index task = no_task;
    Kind kind = Kind::done;
  };

  Runner() = default;
  Runner(const Runner&) = delete;
  Runner& operator=(const Runner&) = delete;
  virtual ~Runner() = default;

  [[nodiscard]] virtual std::chrono::nanoseconds now() = 0;
  // Asks for what the task needs before it takes a slot. True: it has it. False: wait() reports
  // `claimed`, or `failed`.
  virtual bool claim(Index task) = 0;
  // What claim() asked for is not needed any more: the task ended before it began.
  virtual void unclaim(Index task) = 0;
  // wait() reports the end of the attempt, never this call.
  virtual void start(Index task, unsigned attempt) = 0;
  // The attempt should end; wait() reports it all the same. May be called again.
  virtual void stop(Index task, StopReason reason) = 0;
  // The attempt failed, and the task waits for the next one.
  virtual void delayed(Index /*task*/, std::chrono::nanoseconds /*delay*/) {}
  // The end of a task, before anything that follows from it.
  virtual void ended(Index task, TaskEnd end) = 0;
  // Nothing: `until` has come, or something else may have changed.
  [[nodiscard]] virtual std::optional<Report> wait(
      std::optional<std::chrono::nanoseconds> until) = 0;
};

// What a task has beside its place in the plan.
struct Terms {
  std::optional<std::chrono::nanoseconds> timeout;
  TaskRetry retry;
};

class Loop {
 public:
  struct Options {
    unsigned concurrency = 1;
    std::uint64_t seed = 1;
    bool keep_going = true;  // False: after a failure nothing more starts.
  };

  // Requires: the plan is sealed, and `roots` is what seal() returned.
  Loop(Plan& plan, Runner& runner, std::span<const Index> roots, const Options& options);

  // Before run() or while it runs. Tasks of which nothing is said have no timeout and no retry.
  void set_terms(Index task, const Terms& terms);
  // The task is done already: it does not start.
  void set_done(Index task);
  // The task will not start; its dependents are skipped too.
  void skip(Index task) { remove(task, Dependents::skip); }

  void run();

  void add(Index task, std::span<const Index> needs);
  bool remove(Index task, Dependents dependents);
  void pause() noexcept { paused_ = true; }
  void resume() noexcept { paused_ = false; }
  void cancel(Running running);
  void set_concurrency(unsigned concurrency) noexcept { concurrency_ = concurrency; }

  [[nodiscard]] bool paused() const noexcept { return paused_; }
  [[nodiscard]] bool cancelling() const noexcept { return cancelling_; }
  [[nodiscard]] unsigned running() const noexcept { return running_; }
  [[nodiscard]] std::size_t unfinished() const noexcept { return unfinished_; }

 private:
  struct Own {
    Terms terms;
    base::Backoff backoff{std::chrono::nanoseconds{0}, std::chrono::nanoseconds{0}};
    bool claimed = false;
  };

  [[nodiscard]] Own& own(Index task);
  void make_ready(Index task);
  void start_ready();
  void on_report(const Runner::Report& report);
  void on_failure(Index task);
  void end(Index task, State state);
  void after_end(Index task, Plan::Word ended);
  void tell(Index task, State state);
  void drop_claim(Index task);
  void fire_timers();

  Plan& plan_;
  Runner& runner_;
  std::vector<Index> ready_;  // A heap; the first to go is on top.
  std::vector<Own> own_;
  Timers timers_;
  std::mt19937_64 random_;
  std::size_t unfinished_;
  unsigned concurrency_;
  unsigned running_ = 0;
  bool keep_going_;
  bool paused_ = false;
  bool cancelling_ = false;
  bool stopping_ = false;
};

}  // namespace tenure::pipeline
