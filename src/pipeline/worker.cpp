// The loop of a worker: what to run next, and when to sleep. See crew.hpp.
#include <immintrin.h>

#include "base/futex.hpp"
#include "pipeline/crew.hpp"

namespace tenure::pipeline {
namespace {

constexpr std::uint32_t roots_at_once = 32;
constexpr int steal_rounds = 24;
constexpr int pauses_per_round = 40;

constexpr std::uint32_t first_of(std::uint64_t range) noexcept {
  return static_cast<std::uint32_t>(range >> 32U);
}
constexpr std::uint32_t end_of(std::uint64_t range) noexcept {
  return static_cast<std::uint32_t>(range);
}
constexpr std::uint64_t range_of(std::uint32_t first, std::uint32_t end) noexcept {
  return (std::uint64_t{first} << 32U) | end;
}

}  // namespace

void Crew::work(Worker& worker) {
  worker.thread.store(std::this_thread::get_id(), std::memory_order_relaxed);
  while ((signals_.load(std::memory_order_acquire) & finished) == 0) {
    if (!worker.has_slot) worker.has_slot = try_take_slot();
    if (!worker.has_slot) {
      park(worker);
      continue;
    }
    Index task = next_task(worker);
    if (task == no_task) {
      flush(worker);
      sleep(worker);
      continue;
    }
    while (task != no_task) task = execute(worker, task);
  }
  flush(worker);
  if (std::exchange(worker.has_slot, false)) give_slot();
  worker.thread.store({}, std::memory_order_relaxed);
}

// Runs the task and returns the next one, if there is one of those that needed it.
// NOLINTNEXTLINE(readability-function-cognitive-complexity): the hot path, in one piece.
Index Crew::execute(Worker& worker, Index task) {
  const std::uint32_t extra_at = plan_.extra(task);
  if (extra_at != no_task) [[unlikely]] {
    const Extra& own = *extras_[extra_at];
    if (!own.claims.empty() && !own.hold &&
        (signals_.load(std::memory_order_acquire) & (paused | cancelling)) == 0) {
      claim(task);
      return no_task;
    }
  }
  worker.starting.store(true, std::memory_order_relaxed);
  fence_.light();
  if (signals_.load(std::memory_order_acquire) != 0) [[unlikely]] {
    worker.starting.store(false, std::memory_order_release);
    return refuse(worker, task);
  }
  const bool began = plan_.begin(task);
  worker.starting.store(false, std::memory_order_release);
  if (!began) [[unlikely]] {
    drop_claims(task);
    return no_task;
  }
  std::exception_ptr error;
  if (extra_at != no_task) [[unlikely]] {
    if (!run_attempt(worker, task, error)) return no_task;  // A job that took the slot along.
  } else {
    tell([&](PipelineObserver& to) { to.started({task}, 0); });
    try {
      plan_.work(task)();
    } catch (...) {
      error = std::current_exception();
    }
  }
  Index next = no_task;
  bool pushed = false;
  const auto ready = [&](Index dependent) {
    if (next != no_task) {
      worker.deque.push(next);
      pushed = true;
    }
    next = dependent;
  };
  if (extra_at == no_task && error == nullptr) [[likely]] {
    const Plan::Word ended = plan_.finish(task, State::done);
    if (ended.state() == State::done) [[likely]] {
      tell([&](PipelineObserver& to) { to.ended({task}, TaskEnd::done); });
      ++worker.ended;
      plan_.release(task, ended, ready);
    } else {
      tell([&](PipelineObserver& to) { to.ended({task}, TaskEnd::skipped); });
      std::vector<Index> dependents;
      worker.ended += 1 + after_end(task, ended, dependents);
      for (const Index dependent : dependents) ready(dependent);
    }
  } else {
    std::vector<Index> dependents;
    worker.ended += end_attempt(task, std::move(error), dependents);
    for (const Index dependent : dependents) ready(dependent);
  }
  if (pushed) {
    fence_.light();
    if (idle_.load(std::memory_order_relaxed) != 0) wake_one();
  }
  return next;
}

// It may not start: the pipeline is paused, cancelled, over, or runs more than it may.
Index Crew::refuse(Worker& worker, Index task) {
  const std::uint32_t signals = signals_.load(std::memory_order_acquire);
  if ((signals & (cancelling | finished)) != 0) {
    if (plan_.end_unstarted(task, State::cancelled)) {
      tell([&](PipelineObserver& to) { to.ended({task}, TaskEnd::cancelled); });
      ++worker.ended;
    }
    drop_claims(task);
    return no_task;
  }
  worker.deque.push(task);
  park(worker);
  return no_task;
}

Index Crew::next_task(Worker& worker) {
  if (const std::optional<std::uint32_t> task = worker.deque.take()) return *task;
  if (const Index task = take_roots(worker); task != no_task) return task;
  for (int round = 0; round < steal_rounds; ++round) {
    if (const Index task = take_queued(); task != no_task) return task;
    if (const Index task = steal(worker); task != no_task) return task;
    if ((signals_.load(std::memory_order_relaxed) & finished) != 0) break;
    if (round == 0) flush(worker);  // Others may wait for exactly these.
    for (int i = 0; i < pauses_per_round; ++i) _mm_pause();
  }
  return no_task;
}

// Some at once, through the deque: whoever is idle may steal those that wait behind a long one.
Index Crew::take_roots(Worker& worker) {
  std::uint64_t range = worker.roots.load(std::memory_order_acquire);
  while (first_of(range) < end_of(range)) {
    const std::uint32_t first = first_of(range);
    const std::uint32_t count = std::min(roots_at_once, end_of(range) - first);
    if (!worker.roots.compare_exchange_weak(range, range_of(first + count, end_of(range)))) {
      continue;
    }
    for (std::uint32_t i = count; i-- > 1;) worker.deque.push(roots_[first + i]);
    if (count > 1) {
      fence_.light();
      if (idle_.load(std::memory_order_relaxed) != 0) wake_one();
    }
    return roots_[first];
  }
  return no_task;
}

// The later half of them. Requires: the worker's own range is empty.
bool Crew::steal_roots(Worker& worker, Worker& victim) {
  std::uint64_t range = victim.roots.load(std::memory_order_acquire);
  while (first_of(range) < end_of(range)) {
    const std::uint32_t middle = first_of(range) + ((end_of(range) - first_of(range)) / 2);
    if (victim.roots.compare_exchange_weak(range, range_of(first_of(range), middle))) {
      worker.roots.store(range_of(middle, end_of(range)), std::memory_order_release);
      return true;
    }
  }
  return false;
}

Index Crew::steal(Worker& worker) {
  const std::uint32_t count = worker_count_.load(std::memory_order_acquire);
  for (std::uint32_t i = 1; i < count; ++i) {
    Worker& victim = *workers_[(worker.number + i) % count];
    if (const std::optional<std::uint32_t> task = victim.deque.steal()) return *task;
    if (steal_roots(worker, victim)) return take_roots(worker);
  }
  return no_task;
}

Index Crew::take_queued() {
  if (queued_count_.load(std::memory_order_acquire) == 0) return no_task;
  const base::Mutex::Scoped lock{queue_mutex_};
  if (queued_.empty()) return no_task;
  const Index task = queued_.front();
  queued_.pop_front();
  queued_count_.store(queued_.size());
  return task;
}

void Crew::queue(Index task) {
  {
    const base::Mutex::Scoped lock{queue_mutex_};
    queued_.push_back(task);
    queued_count_.store(queued_.size());
  }
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (idle_.load(std::memory_order_relaxed) != 0) wake_one();
}

bool Crew::work_visible() const {
  if (queued_count_.load() != 0 || (signals_.load() & finished) != 0) return true;
  const std::uint32_t count = worker_count_.load(std::memory_order_acquire);
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::uint64_t roots = workers_[i]->roots.load(std::memory_order_acquire);
    if (!workers_[i]->deque.empty() || first_of(roots) < end_of(roots)) return true;
  }
  return false;
}

void Crew::sleep(Worker& worker) {
  if (std::exchange(worker.has_slot, false)) give_slot();
  worker.woken.store(0, std::memory_order_relaxed);
  {
    const base::Mutex::Scoped lock{idle_mutex_};
    sleepers_.push_back(&worker);
    idle_.store(static_cast<std::uint32_t>(sleepers_.size()));
  }
  fence_.heavy();
  if (work_visible()) {
    const base::Mutex::Scoped lock{idle_mutex_};
    // Not there: it was woken, for the same work or for other.
    if (std::erase(sleepers_, &worker) != 0) {
      idle_.store(static_cast<std::uint32_t>(sleepers_.size()));
    }
    return;
  }
  while (worker.woken.load(std::memory_order_acquire) == 0) base::futex_wait(&worker.woken, 0);
}

void Crew::wake_one() {
  Worker* worker = nullptr;
  {
    const base::Mutex::Scoped lock{idle_mutex_};
    if (sleepers_.empty()) return;
    worker = sleepers_.back();
    sleepers_.pop_back();
    idle_.store(static_cast<std::uint32_t>(sleepers_.size()));
    worker->woken.store(1, std::memory_order_release);
  }
  base::futex_wake(&worker->woken, 1);
}

void Crew::park(Worker& worker) {
  flush(worker);
  if (std::exchange(worker.has_slot, false)) give_slot();
  base::Mutex::Scoped lock{gate_mutex_};
  parked_.fetch_add(1);
  while ((signals_.load() & finished) == 0) {
    if ((signals_.load() & paused) == 0 && try_take_slot()) {
      worker.has_slot = true;
      break;
    }
    gate_changed_.wait(lock);
  }
  parked_.fetch_sub(1);
}

bool Crew::try_take_slot() {
  std::int32_t free = free_slots_.load();
  while (free > 0) {
    if (free_slots_.compare_exchange_weak(free, free - 1)) return true;
  }
  return false;
}

void Crew::give_slot() {
  const std::int32_t free = free_slots_.fetch_add(1) + 1;
  if (parked_.load() == 0 && (signals_.load() & limited) == 0) return;
  const base::Mutex::Scoped lock{gate_mutex_};
  if (free >= 0 && free_slots_.load() >= 0) signals_.fetch_and(~std::uint32_t{limited});
  gate_changed_.notify_all();
}

void Crew::flush(Worker& worker) { count_ended(std::exchange(worker.ended, 0)); }

}  // namespace tenure::pipeline
