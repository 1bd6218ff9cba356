#include "flow/core.hpp"

#include <algorithm>
#include <random>

#include "base/duration.hpp"
#include "tenure/detail/saturating.hpp"

namespace tenure::flow {
namespace {

constexpr std::size_t job_threads = 2;
constexpr std::uint32_t max_places_with_queue =
    4096;  // The first in a queue guards on all of them.
constexpr std::uint32_t runnable_page = 1000;
constexpr std::size_t window = 1024;  // Timers in memory, of all partitions together, about.

std::function<std::uint64_t()> generator() {
  auto random = std::make_shared<std::mt19937_64>(std::random_device{}());
  auto mutex = std::make_shared<base::Mutex>();
  return [random, mutex] {
    const base::Mutex::Scoped lock{*mutex};
    return (*random)();
  };
}

EngineOptions complete(EngineOptions options) {
  if (!options.random) options.random = generator();
  if (options.partitions == 0 || options.partitions > 4096) {
    throw BadRequest("an engine has 1 to 4096 partitions, not " +
                     std::to_string(options.partitions));
  }
  if (options.retention < std::chrono::nanoseconds::zero() ||
      options.retention > base::max_duration) {
    throw BadRequest("retention must be between zero and a hundred years");
  }
  if (options.history_limit == 0) throw BadRequest("history_limit must be at least 1");
  if (options.step_threads == 0) throw BadRequest("step_threads must be at least 1");
  return options;
}

}  // namespace

Core::Core(std::shared_ptr<Store> store, EngineOptions options)
    : store_(std::move(store)),
      options_(complete(std::move(options))),
      jobs_(options_.executor ? options_.executor : std::make_shared<ThreadPool>(job_threads)),
      steps_(options_.executor ? options_.executor
                               : std::make_shared<ThreadPool>(options_.step_threads)) {}

Core::~Core() = default;

// NOLINTNEXTLINE(performance-unnecessary-value-param): it is moved on.
void Core::define(detail::Definition definition) {
  if (definition.type.empty()) throw BadRequest("a workflow type must have a name");
  const std::string type = definition.type;
  if (definition.queue > 0 && (definition.max == 0 || definition.max > max_places_with_queue)) {
    throw BadRequest("workflow type '" + type + "': a queue needs a limit of 1 to " +
                     std::to_string(max_places_with_queue) + " runs");
  }
  if (definition.rate_max > 0 && definition.rate_per.count() <= 0) {
    throw BadRequest("workflow type '" + type + "': the period of its rate must be longer than 0");
  }
  if (!definitions_.try_emplace(type, std::move(definition)).second) {
    throw BadRequest("the workflow type '" + type + "' is defined twice");
  }
}

const detail::Definition* Core::definition(std::string_view type) const {
  const auto at = definitions_.find(type);
  return at == definitions_.end() ? nullptr : &at->second;
}

// --- begin and end

void Core::begin() {
  if (running_.load()) return;
  const base::Mutex::Scoped lock{begin_mutex_};
  if (begun_) return;
  if (stopping()) throw Closed("the engine was drained: make a new one");
  Txn txn;
  txn.guards.push_back(Guard::absent(keys::config()));
  txn.writes.push_back(Write::put(keys::config(), std::to_string(options_.partitions)));
  txn.reads.push_back(Range::key(keys::config()));
  txn.durability = options_.durability;
  const Outcome outcome = store_->apply(txn);
  const auto count = Codec<std::uint32_t>::decode(outcome.reads.front().at(0).value);
  partitions_ = std::make_shared<Partitions>(
      store_,
      SessionOptions{.label = options_.label.empty() ? "flow engine" : options_.label,
                     .ttl = options_.lease},
      Partitions::Listener{
          .taken =
              [this](Partition partition, const ReignRef& /*reign*/) {
                post([this, partition] { taken(partition); });
              },
          .lost = [this](Partition partition) { post([this, partition] { lost(partition); }); },
          .post = [this](std::function<void()> job) { post(std::move(job)); },
          .post_after =
              [this](std::chrono::nanoseconds pause, std::function<void()> job) {
                post_at(detail::saturating_add(store_->latest_now(), pause), std::move(job));
              }});
  partitions_->begin(count);
  begun_ = true;
  running_ = true;
  inbox_.watch(outcome.revision);
}

std::size_t Core::recover_all() {
  begin();
  std::size_t found = 0;
  for (std::uint32_t p = 0; p < partitions_->count(); ++p) {
    const auto partition = static_cast<Partition>(p);
    if (!partitions_->owner(partition)) continue;
    Txn txn;
    txn.reads.push_back(keys::runnables(partition));
    found += store_->apply(txn).reads.front().size();
  }
  return found;
}

void Core::taken(Partition partition) {
  {
    const base::Mutex::Scoped lock{timer_mutex_};
    windows_.erase(partition);
    windows_.emplace(partition, TimerWindow{partition, std::max<std::size_t>(
                                                           16, window / partitions_->count())});
  }
  try {
    Range range = keys::runnables(partition).first(runnable_page);
    while (true) {
      Txn txn;
      txn.reads.push_back(range);
      const std::vector<Entry> found = std::move(store_->apply(txn).reads.front());
      for (const Entry& entry : found) {
        offer(keys::id_of_record(entry.key), {Event::Load{}});
      }
      if (found.size() < runnable_page) break;
      range.from = found.back().key + '\0';
    }
  } catch (const StoreError&) {
    post_at(detail::saturating_add(store_->latest_now(), std::chrono::milliseconds{100}),
            [this, partition] {
              if (partitions_->owner(partition)) taken(partition);
            });
    return;
  }
  post([this] { fire(); });
  read_inbox();
}

// The partition may be this engine's again by now, in another reign: that stays.
void Core::lost(Partition partition) {
  std::vector<std::shared_ptr<Instance>> gone;
  std::vector<std::string> awaited;
  {
    const base::Mutex::Scoped lock{mutex_};
    const ReignRef now = partitions_->owner(partition);
    for (const auto& [id, done] : listeners_) {
      if (partition_of(id) == partition) awaited.push_back(id);
    }
    for (auto at = instances_.begin(); at != instances_.end();) {
      if (at->second->partition() == partition && at->second->reign() != now) {
        gone.push_back(std::move(at->second));
        at = instances_.erase(at);
      } else {
        ++at;
      }
    }
  }
  for (const std::shared_ptr<Instance>& instance : gone) instance->abandon();
  {
    const base::Mutex::Scoped lock{timer_mutex_};
    if (!partitions_->owner(partition)) windows_.erase(partition);  // Else taken() makes a new one.
  }
  for (const std::string& id : awaited) look_for_end(id);
}

void Core::drain(bool stop_steps) {
  {
    const base::Mutex::Scoped lock{begin_mutex_};
    if (stopping_.exchange(true)) return;
  }
  if (stop_steps) steps_stopped_ = true;
  for (Attempts& attempts : attempts_) {
    if (!stop_steps) break;
    const base::Mutex::Scoped lock{attempts.mutex};
    for (const std::shared_ptr<Attempt>& attempt : attempts.all) {
      attempt->abandoned = true;
      attempt->stop.request_stop();
    }
  }
  inbox_.stop();
  std::multimap<Instant, std::function<void()>> later;  // They end outside the lock.
  {
    const base::Mutex::Scoped lock{timer_mutex_};
    alarm_.reset();
    later.swap(later_);
    windows_.clear();
  }
  later.clear();
  if (!options_.executor) {
    base::Mutex::Scoped lock{mutex_};
    while (busy_.load() > 0) idle_.wait(lock);
  }
  std::vector<std::shared_ptr<Instance>> gone;
  std::map<std::string, EndWatch> watches;
  std::multimap<std::string, std::function<void(const FlowInfo&)>> listeners;
  {
    const base::Mutex::Scoped lock{mutex_};
    for (auto& [id, instance] : instances_) gone.push_back(std::move(instance));
    instances_.clear();
    watches.swap(end_watches_);
    listeners.swap(listeners_);  // Those who wait get Closed.
    drained_ = true;
  }
  for (const std::shared_ptr<Instance>& instance : gone) instance->abandon();
  gone.clear();
  watches.clear();
  listeners.clear();
  if (partitions_) partitions_->stop();
  if (!options_.executor) {
    static_cast<ThreadPool&>(*steps_).stop();
    static_cast<ThreadPool&>(*jobs_).stop();
  }
  end_lock_calls();
}

std::optional<Instant> Core::next_timer() {
  const base::Mutex::Scoped lock{timer_mutex_};
  return armed_;
}

std::size_t Core::resident() const {
  const base::Mutex::Scoped lock{mutex_};
  return instances_.size();
}

// --- work

void Core::post(std::function<void()> job) {
  ++busy_;
  jobs_->post([self = shared_from_this(), job = std::move(job)] {
    job();
    self->done_one();
  });
}

void Core::post_turn(std::function<void()> job) {
  std::function<void()> counted = [self = shared_from_this(), job = std::move(job)] {
    ThreadPool::ending();
    job();
    self->done_one();
  };
  ++busy_;
  if (options_.executor || !static_cast<ThreadPool&>(*steps_).post_if_idle(counted)) {
    jobs_->post(std::move(counted));
  }
}

void Core::post_along(std::function<void()> job) {
  if (options_.executor) {
    post(std::move(job));
    return;
  }
  ++busy_;
  static_cast<ThreadPool&>(*steps_).post_along(
      [self = shared_from_this(), job = std::move(job)] {
        job();
        self->done_one();
      },
      std::static_pointer_cast<ThreadPool>(jobs_));
}

void Core::done_one() noexcept {
  if (--busy_ > 0 || !stopping()) return;
  const base::Mutex::Scoped lock{mutex_};
  idle_.notify_all();
}

void Core::post_at(Instant time, std::function<void()> job) {
  {
    const base::Mutex::Scoped lock{timer_mutex_};
    if (stopping()) return;
    later_.emplace(time, std::move(job));
  }
  arm();
}

bool Core::owns(Partition partition, const ReignRef& reign) const {
  return partitions_->owns(partition, reign);
}

// --- workflows in memory

// Null: the partition is not ours. Asked with the lock held: lost() removes what is there by then,
// and nothing of a reign that is over comes after.
std::shared_ptr<Instance> Core::instance(const std::string& id, Partition partition) {
  const base::Mutex::Scoped lock{mutex_};
  const ReignRef reign = partitions_->owner(partition);
  if (!reign) return nullptr;
  std::shared_ptr<Instance>& found = instances_[id];
  if (!found || found->reign() != reign) {
    found = std::make_shared<Instance>(*this, id, partition, reign);
  }
  if (const auto at = waiting_at_.find(id); at != waiting_at_.end()) {
    waiting_.erase(at->second);
    waiting_at_.erase(at);
  }
  return found;
}

// NOLINTNEXTLINE(misc-no-recursion,performance-unnecessary-value-param): it posts the event.
void Core::offer(const std::string& id, Event event, bool here) {
  const Partition partition = partition_of(id);
  while (!stopping()) {
    const std::shared_ptr<Instance> one = instance(id, partition);
    if (!one) return;  // The store keeps it for the owner.
    if (one->offer(event, here)) return;
    forget(*one);
  }
}

bool Core::remove(const Instance& instance) {
  std::shared_ptr<Instance> gone;  // Frames end outside the lock.
  const base::Mutex::Scoped lock{mutex_};
  const auto at = instances_.find(instance.id());
  if (at == instances_.end() || at->second.get() != &instance) return false;
  gone = std::move(at->second);
  instances_.erase(at);
  return listeners_.contains(instance.id());
}

// Whoever began to wait after it had told its end saw it here, and waits for it to tell.
void Core::forget(const Instance& instance) {
  if (remove(instance)) post([this, id = instance.id()] { look_for_end(id); });
}

void Core::waits(const std::shared_ptr<Instance>& instance) {
  std::shared_ptr<Instance> oldest;
  {
    const base::Mutex::Scoped lock{mutex_};
    const auto at = instances_.find(instance->id());
    if (at == instances_.end() || at->second != instance) return;
    if (!waiting_at_.contains(instance->id())) {
      waiting_at_[instance->id()] = waiting_.insert(waiting_.end(), instance->id());
    }
    if (waiting_.size() <= options_.resident) return;
    const std::string id = std::move(waiting_.front());
    waiting_.pop_front();
    waiting_at_.erase(id);
    if (const auto found = instances_.find(id); found != instances_.end()) oldest = found->second;
  }
  if (oldest && oldest->try_evict()) static_cast<void>(remove(*oldest));
}

void Core::report(const std::string& id, const std::string& problem) {
  if (options_.on_problem) options_.on_problem(id, problem);
}

// --- steps

Core::Attempts& Core::attempts_with(const Attempt& attempt) noexcept {
  const std::size_t hash = std::hash<const Attempt*>{}(&attempt);
  return attempts_[(hash / alignof(std::max_align_t) * 7 / 8) % attempts_.size()];
}

void Core::start_attempt(std::shared_ptr<Instance> instance, std::shared_ptr<Attempt> attempt,
                         std::shared_ptr<void> with) {
  if (stopping()) return;
  if (attempt->is_listed()) {
    {
      Attempts& attempts = attempts_with(*attempt);
      const base::Mutex::Scoped lock{attempts.mutex};
      if (stopping()) return;
      attempts.all.insert(attempt);
    }
    watch_attempt(instance, attempt);
  }
  ++busy_;
  steps_->post([self = shared_from_this(), instance = std::move(instance),
                attempt = std::move(attempt), with = std::move(with)]() mutable {
    with.reset();
    self->run_attempt(instance, attempt);
    self->done_one();
  });
}

std::string Core::invoke(const Instance& instance, const std::shared_ptr<Attempt>& attempt) {
  if (!attempt->stop.stop_possible()) {
    StepContext nothing{{}, attempt->number, instance.reign()->number, {}, {}};
    return attempt->call->invoke(nothing);
  }
  StepContext context{
      instance.id(), attempt->number, instance.reign()->number, attempt->stop.get_token(),
      [this, attempt] { attempt->last_beat = store_->latest_now().time_since_epoch().count(); }};
  if (options_.instead) {
    std::optional<std::string> value =
        options_.instead(attempt->step, attempt->call->arguments(), context);
    if (value) return *std::move(value);
  }
  return attempt->call->invoke(context);
}

void Core::run_attempt(const std::shared_ptr<Instance>& instance,
                       const std::shared_ptr<Attempt>& attempt) {
  Event::Ended ended{.key = attempt->key, .attempt = attempt->number, .ok = false, .value = {}};
  if (!stopping() && owns(instance->partition(), instance->reign())) {
    try {
      ended.value = invoke(*instance, attempt);
      ended.ok = true;
    } catch (...) {
      ended.value = errors_.describe(std::current_exception()).text();
    }
    ThreadPool::ending();
    if (!attempt->abandoned && !steps_stopped_) instance->offer({std::move(ended)}, true);
  }
  if (!attempt->is_listed()) return;
  Attempts& attempts = attempts_with(*attempt);
  const base::Mutex::Scoped lock{attempts.mutex};
  attempts.all.erase(attempt);
}

void Core::watch_attempt(const std::shared_ptr<Instance>& instance,
                         const std::shared_ptr<Attempt>& attempt) {
  std::optional<Instant> next = attempt->ends;
  if (attempt->heartbeat.count() > 0) {
    const Instant beat = detail::saturating_add(
        Instant{std::chrono::nanoseconds{attempt->last_beat.load()}}, attempt->heartbeat);
    next = std::min(next.value_or(beat), beat);
  }
  if (!next) return;
  post_at(*next, [this, weak = std::weak_ptr{instance}, attempt] {
    {
      Attempts& attempts = attempts_with(*attempt);
      const base::Mutex::Scoped lock{attempts.mutex};
      if (!attempts.all.contains(attempt)) return;
    }
    const std::shared_ptr<Instance> alive = weak.lock();
    if (!alive) return;
    const Instant now = store_->latest_now();
    const bool over = attempt->ends && *attempt->ends <= now;
    const bool silent =
        attempt->heartbeat.count() > 0 &&
        detail::saturating_add(Instant{std::chrono::nanoseconds{attempt->last_beat.load()}},
                               attempt->heartbeat) <= now;
    if (!over && !silent) {
      watch_attempt(alive, attempt);
      return;
    }
    attempt->abandoned = true;
    const ErrorInfo info{.type = "timeout",
                         .code = {},
                         .message = over ? "the attempt took longer than its time limit"
                                         : "the attempt sent no heartbeat in time"};
    alive->offer({Event::Ended{
        .key = attempt->key, .attempt = attempt->number, .ok = false, .value = info.text()}});
    attempt->stop.request_stop();
  });
}

}  // namespace tenure::flow
