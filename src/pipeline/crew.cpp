#include "pipeline/crew.hpp"

#include <algorithm>
#include <ranges>
#include <system_error>

#include "base/nearest.hpp"
#include "pipeline/system_clock.hpp"
#include "tenure/error.hpp"

namespace tenure::pipeline {
namespace {

constexpr unsigned max_retries = 10'000;

unsigned checked_concurrency(unsigned concurrency) {
  if (concurrency == 0) {
    throw BadRequest("a concurrency of 0 would run nothing: use at least 1");
  }
  if (concurrency > Pipeline::max_concurrency) {
    throw BadRequest("a concurrency of " + std::to_string(concurrency) + " is more than " +
                     std::to_string(Pipeline::max_concurrency) + ": use less");
  }
  return concurrency;
}

unsigned first_concurrency(unsigned concurrency) {
  return concurrency == 0 ? std::max(1U, std::thread::hardware_concurrency())
                          : checked_concurrency(concurrency);
}

std::uint64_t first_seed(const std::optional<std::uint64_t>& seed) {
  if (seed) return *seed;
  std::random_device device;
  return (std::uint64_t{device()} << 32U) | device();
}

void check(const TaskOptions& options) {
  if (options.timeout && options.timeout->count() <= 0) {
    throw BadRequest("the timeout of a task must be greater than zero");
  }
  if (options.retry.max > max_retries) {
    throw BadRequest("a task may be retried at most " + std::to_string(max_retries) + " times");
  }
  if (options.retry.base.count() < 0 || options.retry.cap.count() < 0) {
    throw BadRequest("the base and the cap of a retry must not be negative");
  }
  if (!options.claims.empty() && !options.locker) {
    throw BadRequest("a task has claims but no locker: set TaskOptions::locker to a space");
  }
}

}  // namespace

Crew::Crew(PipelineOptions options)
    : fence_(options.membarrier),
      clock_(options.clock ? std::move(options.clock) : std::make_shared<SystemClock>()),
      workers_(Pipeline::max_threads),
      concurrency_(first_concurrency(options.concurrency)),
      random_(first_seed(options.seed)) {}

Crew::~Crew() = default;

Index Crew::append(detail::Work work) {
  if (plan_.size() >= Plan::max_size) {
    throw BadRequest("a pipeline has at most " + std::to_string(Plan::max_size) + " tasks");
  }
  const bool needs_extra = work.kind() != detail::Work::Kind::plain;
  // Not after the end: a count that has reached zero stays there.
  std::size_t count = unfinished_.load();
  do {
    if (ran_ && (count == 0 || !running_)) throw BadRequest("the run of this pipeline has ended");
  } while (!unfinished_.compare_exchange_weak(count, count + 1));
  const Index task = plan_.append(std::move(work));
  if (needs_extra) {
    plan_.extra(task) = static_cast<std::uint32_t>(extras_.size());
    extras_.append() = std::make_unique<Extra>();
  }
  return task;
}

void Crew::keep_extra(Index task, const TaskOptions& options) {
  if (!options.timeout && options.retry.max == 0 && options.claims.empty()) return;
  if (plan_.extra(task) == no_task) {
    plan_.extra(task) = static_cast<std::uint32_t>(extras_.size());
    extras_.append() = std::make_unique<Extra>();
  }
  Extra& own = extra(task);
  own.timeout = options.timeout;
  own.max_retries = options.retry.max;
  own.backoff = base::Backoff{options.retry.base, options.retry.cap};
  own.claims = options.claims;
  own.locker = options.locker;
}

Index Crew::known(TaskId task) const {
  if (task.value < plan_.size()) return task.value;
  throw BadRequest("task #" + std::to_string(task.value) + " is not in this pipeline");
}

void Crew::fail_unknown(const std::string& task, const std::string& needed) const {
  const std::string text = "task \"" + task + "\" needs \"" + needed + "\", which does not exist: ";
  std::vector<std::string_view> names;
  names.reserve(by_name_.size());
  for (const auto& [name, other] : by_name_) names.push_back(name);
  const std::string near{base::nearest(needed, names)};
  if (near.empty()) throw BadRequest(text + "add it, or remove the dependency");
  throw BadRequest(text + "did you mean \"" + near + "\"?");
}

Index Crew::add(std::string_view name, detail::Work work, const TaskOptions& options) {
  check(options);
  base::Mutex::Scoped lock{control_mutex_};
  std::string own{name};
  if (own.empty()) throw BadRequest("the name of a task is empty");
  if (by_name_.contains(own)) {
    throw BadRequest("there are two tasks of the name \"" + own + "\": rename one");
  }
  std::vector<Index> needs;
  needs.reserve(options.after.size() + options.needs.size());
  for (const TaskId task : options.after) needs.push_back(known(task));
  if (plan_.sealed()) {
    for (const std::string& needed : options.needs) {
      const auto at = by_name_.find(needed);
      if (at == by_name_.end()) fail_unknown(own, needed);
      needs.push_back(at->second);
    }
  }
  const Index task = append(std::move(work));
  const auto [at, inserted] = by_name_.emplace(std::move(own), task);
  names_.emplace(task, &at->first);
  keep_extra(task, options);
  if (!plan_.sealed()) {
    for (const std::string& needed : options.needs) needs_.emplace_back(task, needed);
    plan_.estimate(task, options.estimate);
  }
  const std::optional<State> end = link(task, needs);
  lock.unlock();
  if (end) tell_end(task, *end);
  return task;
}

Index Crew::add(detail::Work work, std::span<const TaskId> after) {
  base::Mutex::Scoped lock{control_mutex_};
  for (const TaskId task : after) known(task);
  const Index task = append(std::move(work));
  if (!plan_.sealed()) {
    for (const TaskId needed : after) plan_.need(task, needed.value);
    return task;
  }
  std::vector<Index> needs;
  for (const TaskId needed : after) needs.push_back(needed.value);
  const std::optional<State> end = link(task, needs);
  lock.unlock();
  if (end) tell_end(task, *end);
  return task;
}

std::optional<State> Crew::link(Index task, std::span<const Index> needs) {
  if (!plan_.sealed()) {
    for (const Index needed : needs) plan_.need(task, needed);
    return std::nullopt;
  }
  std::optional<Plan::End> end = plan_.link(task, needs);
  if (!end && (signals_.load() & cancelling) != 0) {
    end = Plan::End{.state = State::cancelled, .cause = 0};
  }
  if (!end) {
    if (plan_.open(task)) queue(task);
    return std::nullopt;
  }
  // Another of those that it needs may have ended it first.
  if (!plan_.end_unstarted(task, end->state, end->cause)) return std::nullopt;
  return end->state;
}

void Crew::tell_end(Index task, State end) {
  tell([&](PipelineObserver& to) { to.ended({task}, end_of(end)); });
  count_ended(1);
}

std::optional<Index> Crew::find(std::string_view name) const {
  const base::Mutex::Scoped lock{control_mutex_};
  const auto at = by_name_.find(std::string{name});
  return at == by_name_.end() ? std::nullopt : std::optional{at->second};
}

std::string Crew::name_of(Index task) const {
  const auto at = names_.find(task);
  return at == names_.end() ? "#" + std::to_string(task) : *at->second;
}

std::string Crew::name(Index task) const {
  const base::Mutex::Scoped lock{control_mutex_};
  return name_of(task);
}

std::exception_ptr Crew::error(Index task) const {
  const base::Mutex::Scoped lock{errors_mutex_};
  const auto at = errors_.find(task);
  return at == errors_.end() ? nullptr : at->second;
}

void Crew::prepare() {
  std::vector<std::pair<Index, Dependents>> removals;
  {
    const base::Mutex::Scoped lock{control_mutex_};
    if (plan_.sealed()) return;
    for (const auto& [task, needed] : needs_) {
      if (!by_name_.contains(needed)) fail_unknown(name_of(task), needed);
    }
    for (const auto& [task, needed] : std::exchange(needs_, {})) {
      plan_.need(task, by_name_.at(needed));
    }
    // NOLINTNEXTLINE(clang-analyzer-*): called in here, with the mutex held.
    roots_ = plan_.seal([this](Index task) TENURE_LOCKS_A_SET { return name_of(task); });
    removals.swap(removals_);
  }
  for (const auto& [task, dependents] : removals) remove_now(task, dependents);
}

bool Crew::remove(Index task, Dependents dependents) {
  {
    const base::Mutex::Scoped lock{control_mutex_};
    if (task >= plan_.size()) return false;
    if (!plan_.sealed()) {
      const bool again = std::ranges::any_of(
          removals_, [&](const auto& removal) { return removal.first == task; });
      if (!again) removals_.emplace_back(task, dependents);
      return !again;
    }
  }
  return remove_now(task, dependents);
}

bool Crew::remove_now(Index task, Dependents dependents) {
  const std::optional<Plan::Word> word = plan_.remove(task, dependents == Dependents::release);
  if (!word) return false;
  if (word->state() == State::skipped) {  // Otherwise it runs, and ends soon.
    tell([&](PipelineObserver& to) { to.ended({task}, TaskEnd::skipped); });
    std::vector<Index> ready;
    const std::size_t ended = 1 + after_end(task, *word, ready);
    for (const Index next : ready) queue(next);
    count_ended(ended);
  }
  stop_attempt(task);
  return true;
}

void Crew::pause() {
  raise(paused);
  wait_for_starts();
}

void Crew::resume() {
  const base::Mutex::Scoped lock{gate_mutex_};
  signals_.fetch_and(~std::uint32_t{paused});
  gate_changed_.notify_all();
}

void Crew::wait_for_starts() {
  fence_.heavy();
  const std::uint32_t count = worker_count_.load(std::memory_order_acquire);
  for (std::uint32_t i = 0; i < count; ++i) {
    while (workers_[i]->starting.load(std::memory_order_acquire)) std::this_thread::yield();
  }
}

bool Crew::on_worker() const {
  const std::uint32_t count = worker_count_.load(std::memory_order_acquire);
  const std::thread::id self = std::this_thread::get_id();
  return std::ranges::any_of(std::views::iota(0U, count), [&](std::uint32_t i) {
    return workers_[i]->thread.load(std::memory_order_relaxed) == self;
  });
}

void Crew::cancel(Running running) {
  if (running == Running::stop) stop_running_.store(true);
  raise(cancelling);
  wait_for_starts();
  std::size_t size = 0;
  bool waits = false;
  {
    const base::Mutex::Scoped lock{control_mutex_};
    if (!plan_.sealed()) return;  // run() ends all of them.
    size = plan_.size();          // Those that are added later see the signal.
    waits = running_;
  }
  cancel_all(size, running);
  base::Mutex::Scoped lock{gate_mutex_};
  gate_changed_.notify_all();
  if (!waits || on_worker()) return;
  while ((signals_.load() & finished) == 0 || in_flight_ != 0) gate_changed_.wait(lock);
}

void Crew::cancel_all(std::size_t size, Running running) {
  std::size_t ended = 0;
  std::vector<Index> stops;
  for (Index task = 0; task < size; ++task) {
    const bool has_extra = plan_.extra(task) != no_task;
    if (plan_.end_unstarted(task, State::cancelled)) {
      tell([&](PipelineObserver& to) { to.ended({task}, TaskEnd::cancelled); });
      ++ended;
      if (has_extra) stops.push_back(task);  // It may wait for its claims.
    } else if (has_extra && running == Running::stop &&
               plan_.word(task).state() == State::running) {
      stops.push_back(task);
    }
  }
  for (const Index task : stops) stop_attempt(task);
  count_ended(ended);
}

void Crew::set_concurrency(unsigned concurrency) {
  const base::Mutex::Scoped lock{control_mutex_};
  const auto wanted = static_cast<std::int32_t>(checked_concurrency(concurrency));
  const std::int32_t change = wanted - static_cast<std::int32_t>(concurrency_);
  concurrency_ = concurrency;
  if (!running_) return;
  {
    const base::Mutex::Scoped gate{gate_mutex_};
    if (free_slots_.fetch_add(change) + change < 0) raise(limited);
    gate_changed_.notify_all();
  }
  start_workers(concurrency);
}

void Crew::start_workers(unsigned count) {
  try {
    while (worker_count_.load() < std::min(count, Pipeline::max_threads)) start_worker();
  } catch (const std::system_error&) {
    return;  // Fewer threads than slots: those that are there do the work.
  }
}

void Crew::start_worker() {
  const std::uint32_t number = worker_count_.load();
  if (workers_[number] == nullptr) workers_[number] = std::make_unique<Worker>(fence_, number);
  Worker& worker = *workers_[number];
  worker_count_.store(number + 1, std::memory_order_release);
  try {
    threads_.run([this, &worker] { work(worker); });
  } catch (const std::system_error&) {
    worker_count_.store(number, std::memory_order_release);
    throw;
  }
}

void Crew::run() {
  prepare();
  std::size_t size = 0;
  {
    const base::Mutex::Scoped lock{control_mutex_};
    if (ran_) throw BadRequest("a pipeline runs once: make another one");
    ran_ = true;
    running_ = true;
    size = plan_.size();
    free_slots_.store(static_cast<std::int32_t>(concurrency_));
    if (unfinished_.load() == 0) raise(finished);
    workers_[0] = std::make_unique<Worker>(fence_, 0);
    workers_[0]->roots.store(roots_.size(), std::memory_order_relaxed);
    worker_count_.store(1, std::memory_order_release);
  }
  if ((signals_.load() & cancelling) != 0) cancel_all(size, Running::stop);
  if ((signals_.load() & finished) == 0) {
    const base::Mutex::Scoped lock{control_mutex_};
    start_workers(concurrency_);
  }
  work(*workers_[0]);
  threads_.wait();
  {
    base::Mutex::Scoped lock{gate_mutex_};
    while (in_flight_ != 0) gate_changed_.wait(lock);
  }
  clock_->disarm();
  const base::Mutex::Scoped lock{control_mutex_};
  running_ = false;
  for (std::size_t i = 0; i < extras_.size(); ++i) {
    extras_[i]->on_lost = nullptr;
    extras_[i]->hold = Hold{};
  }
}

}  // namespace tenure::pipeline
