// One attempt of a task: its claims, its timeout, its end, the next attempt. See crew.hpp.
#include "base/detached.hpp"
#include "base/futex.hpp"
#include "pipeline/crew.hpp"
#include "tenure/detail/saturating.hpp"

namespace tenure::pipeline {
namespace {

using OnClaims = void (*)(void* crew, Index task, std::optional<Hold> hold,
                          std::exception_ptr error);

// Everything by value; what the pointers refer to outlives the wait, because run() waits for it.
// NOLINTNEXTLINE(readability-static-accessed-through-instance): the compiler does that.
base::Detached wait_for_claims(const Locker* locker, const std::vector<Claim>* claims,
                               std::stop_token stop, void* crew, Index task, OnClaims told) {
  std::optional<Hold> hold;
  std::exception_ptr error;
  try {
    Request request{*claims};
    hold = co_await locker->async_lock(std::move(request), std::move(stop));
  } catch (...) {
    error = std::current_exception();
  }
  told(crew, task, std::move(hold), std::move(error));
}

}  // namespace

void Crew::claim(Index task) {
  Extra& own = extra(task);
  const std::stop_source stop;
  {
    const base::Mutex::Scoped lock{extras_mutex_};
    own.stop = stop;
  }
  {
    const base::Mutex::Scoped lock{gate_mutex_};
    ++in_flight_;
  }
  if (!plan_.claim(task)) {
    leave();
    return;
  }
  // check() has refused claims without a locker.
  wait_for_claims(&*own.locker,  // NOLINT(bugprone-unchecked-optional-access)
                  &own.claims, stop.get_token(), this, task,
                  [](void* crew, Index of, std::optional<Hold> hold, std::exception_ptr error) {
                    static_cast<Crew*>(crew)->claimed(of, std::move(hold), std::move(error));
                  });
}

// On the thread that released the claims, or one of the space.
void Crew::claimed(Index task, std::optional<Hold> hold, std::exception_ptr error) noexcept {
  if (hold) {
    extra(task).hold = std::move(*hold);
    queue(task);
  } else if (error != nullptr && plan_.begin(task)) {
    std::vector<Index> ready;
    const std::size_t ended = end_attempt(task, std::move(error), ready);
    for (const Index next : ready) queue(next);
    count_ended(ended);
  }
  leave();
}

void Crew::drop_claims(Index task) {
  if (plan_.extra(task) == no_task) return;
  Extra& own = extra(task);
  own.on_lost = nullptr;
  own.hold = Hold{};
}

void Crew::stop_attempt(Index task) {
  if (plan_.extra(task) == no_task) return;
  std::stop_source stop{std::nostopstate};
  {
    const base::Mutex::Scoped lock{extras_mutex_};
    stop = extra(task).stop;
  }
  stop.request_stop();  // Runs callbacks of the task.
}

// False: it is a job, and suspended.
bool Crew::run_attempt(Worker& worker, Index task, std::exception_ptr& error) {
  Extra& own = extra(task);
  const std::uint16_t attempt = plan_.word(task).attempt();
  const std::stop_source stop;
  {
    const base::Mutex::Scoped lock{extras_mutex_};
    own.stop = stop;
  }
  // Whoever removed or cancelled it before that stopped another source.
  if (plan_.word(task).has(Flag::removed) || stop_running_.load()) {
    std::stop_source{stop}.request_stop();
  }
  if (own.hold) {
    own.on_lost = std::make_unique<std::stop_callback<std::function<void()>>>(
        own.hold.lost(), [this, task, attempt] {
          if (plan_.flag(task, attempt, Flag::lost)) stop_attempt(task);
        });
  }
  tell([&](PipelineObserver& to) { to.started({task}, attempt); });
  if (own.timeout) {
    add_timer({.at = detail::saturating_add(clock_->now(), *own.timeout),
               .task = task,
               .attempt = attempt,
               .kind = Due::Kind::timeout});
  }
  const TaskContext context{{task}, attempt, own.hold.token(), stop.get_token()};
  detail::Work& work = plan_.work(task);
  try {
    if (work.kind() != detail::Work::Kind::job) {
      work(context);
      return true;
    }
    Job job = work.start(context);
    {
      const base::Mutex::Scoped lock{gate_mutex_};
      ++in_flight_;
    }
    // The slot is the job's now; it is this worker's again if the job ends at once.
    worker.has_slot = false;
    if (!job.begin(*this, {task}, error)) return false;
    worker.has_slot = true;
    leave();
    return true;
  } catch (...) {
    error = std::current_exception();
    return true;
  }
}

void Crew::job_ended(TaskId task, std::exception_ptr error) noexcept {
  std::vector<Index> ready;
  const std::size_t ended = end_attempt(task.value, std::move(error), ready);
  for (const Index next : ready) queue(next);
  give_slot();
  count_ended(ended);
  leave();
}

std::size_t Crew::end_attempt(Index task, std::exception_ptr error, std::vector<Index>& ready) {
  if (plan_.extra(task) != no_task) {
    drop_claims(task);
    const Plan::Word word = plan_.word(task);
    if (word.has(Flag::timed_out)) {
      error = std::make_exception_ptr(TaskTimeout("the attempt ran longer than its timeout"));
    } else if (word.has(Flag::lost)) {
      error = std::make_exception_ptr(ClaimsLost("the task lost its claims while it ran"));
    }
    if (error != nullptr && retry(task, word)) return 0;
  }
  State state = State::done;
  if (error != nullptr) state = stop_running_.load() ? State::cancelled : State::failed;
  const Plan::Word ended = plan_.finish(task, state);
  if (ended.state() == State::failed) keep_error(task, std::move(error));
  tell([&](PipelineObserver& to) { to.ended({task}, end_of(ended.state())); });
  return 1 + after_end(task, ended, ready);
}

// What the end of a task means for those that need it. Returns how many of them ended.
std::size_t Crew::after_end(Index task, Plan::Word ended, std::vector<Index>& ready) {
  std::size_t count = 0;
  const auto spread = [&](State state, Index cause) {
    plan_.spread(task, ended, state, cause, [&](Index dependent) {
      tell([&](PipelineObserver& to) { to.ended({dependent}, end_of(state)); });
      ++count;
    });
  };
  switch (ended.state()) {
    case State::failed: spread(State::blocked, task); break;
    case State::cancelled: spread(State::cancelled, task); break;
    case State::skipped:
      if (!ended.has(Flag::release)) {
        spread(State::skipped, task);
        break;
      }
      [[fallthrough]];
    default: plan_.release(task, ended, [&](Index next) { ready.push_back(next); }); break;
  }
  return count;
}

// True: there will be another attempt, or the task has been cancelled instead.
bool Crew::retry(Index task, Plan::Word word) {
  Extra& own = extra(task);
  if (word.attempt() >= own.max_retries || word.has(Flag::removed)) return false;
  if ((signals_.load() & cancelling) != 0) return false;
  std::chrono::nanoseconds delay{};
  {
    const base::Mutex::Scoped lock{timers_mutex_};
    delay = own.backoff.next(random_);
  }
  tell([&](PipelineObserver& to) { to.retries({task}, word.attempt(), delay); });
  if (!plan_.delay(task)) return false;
  // From here on the task may be anybody's: cancel() and remove() end it, the timer begins it.
  if ((signals_.load() & cancelling) != 0) {
    if (plan_.end_unstarted(task, State::cancelled)) {
      tell([&](PipelineObserver& to) { to.ended({task}, TaskEnd::cancelled); });
      count_ended(1);
    }
    return true;
  }
  add_timer({.at = detail::saturating_add(clock_->now(), delay),
             .task = task,
             .attempt = static_cast<std::uint16_t>(word.attempt() + 1),
             .kind = Due::Kind::retry});
  return true;
}

void Crew::add_timer(const Due& due) {
  const base::Mutex::Scoped lock{timers_mutex_};
  const std::optional<std::chrono::nanoseconds> before = timers_.next();
  timers_.add(due);
  if (!before || due.at < *before) arm();
}

void Crew::arm() {
  if (const auto at = timers_.next()) clock_->arm(*at, [this] { timers_due(); });
}

void Crew::timers_due() {
  std::vector<Due> all;
  {
    const base::Mutex::Scoped lock{timers_mutex_};
    const std::chrono::nanoseconds now = clock_->now();
    while (const std::optional<Due> due = timers_.take(now)) all.push_back(*due);
    arm();
  }
  for (const Due& due : all) {
    if (due.kind == Due::Kind::retry) {
      queue(due.task);
    } else if (plan_.flag(due.task, due.attempt, Flag::timed_out)) {
      stop_attempt(due.task);
    }
  }
}

void Crew::keep_error(Index task, std::exception_ptr error) {
  const base::Mutex::Scoped lock{errors_mutex_};
  errors_[task] = std::move(error);
}

void Crew::count_ended(std::size_t count) {
  if (count == 0 || unfinished_.fetch_sub(count) != count) return;
  // Before run() somebody may still add a task; from then on zero stays zero (append).
  if (ran_.load() && unfinished_.load() == 0) finish_run();
}

void Crew::finish_run() {
  raise(finished);
  {
    const base::Mutex::Scoped lock{gate_mutex_};
    gate_changed_.notify_all();
  }
  const base::Mutex::Scoped lock{idle_mutex_};
  for (Worker* const worker : std::exchange(sleepers_, {})) {
    worker->woken.store(1, std::memory_order_release);
    base::futex_wake(&worker->woken, 1);
  }
  idle_.store(0);
}

// The last touch of a job or a request for claims: run() may return after it.
void Crew::leave() {
  const base::Mutex::Scoped lock{gate_mutex_};
  --in_flight_;
  gate_changed_.notify_all();
}

}  // namespace tenure::pipeline
