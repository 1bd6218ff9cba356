#include "store/memory/state.hpp"

#include <algorithm>
#include <iterator>
#include <optional>

#include "base/boot_clock.hpp"
#include "store/session_entry.hpp"
#include "tenure/detail/saturating.hpp"

namespace tenure {
namespace {

// Steady clocks stop while the machine sleeps, but the store's clock does not. So a thread that
// waits for a moment wakes at least this often.
constexpr std::chrono::nanoseconds longest_nap = std::chrono::seconds{1};

// The store whose service thread this is; null: of none.
thread_local const void* serves = nullptr;
thread_local const void* rings_for = nullptr;

}  // namespace

MemoryStore::State::State(Clock clock, Order order)
    : clock_(clock),
      base_(clock == Clock::virtual_time
                ? virtual_start
                : Instant{std::chrono::system_clock::now()} - base::boot_time()),
      table_(remembered_changes, order) {}

// --- applies

void MemoryStore::State::run_hook(const Txn& txn) {
  std::function<void(const Txn&)> hook;
  {
    const Lock lock{mutex_};
    hook = hook_;
  }
  if (hook) hook(txn);
}

Outcome MemoryStore::State::write(const Txn& txn) {
  const std::uint64_t before = table_.applies();
  Outcome outcome = table_.apply(txn);
  if (table_.applies() != before) collect(before);
  return outcome;
}

MemoryStore::State::Result MemoryStore::State::step(const Txn& txn) {
  std::optional<Fault> fault;
  if (!faults_.empty()) {
    fault = faults_.front();
    faults_.pop_front();
  }
  Result result;
  if (fault == Fault::before) {
    result.error = std::make_exception_ptr(StoreError{"memory: fail_next() made this apply fail"});
    return result;
  }
  result.outcome = write(txn);
  if (fault == Fault::after) {
    result.outcome = {};
    result.error = std::make_exception_ptr(StoreError{
        "memory: fail_next() made this apply fail after the commit: read before retrying", true});
  }
  return result;
}

std::vector<MemoryStore::State::Made> MemoryStore::State::make_posted() {
  std::vector<Made> made;
  for (; !posted_.empty(); posted_.pop_front()) {
    made.push_back({std::move(posted_.front().done), step(posted_.front().txn)});
  }
  telling_ += made.size();
  return made;
}

void MemoryStore::State::tell(std::vector<Made> made) {
  if (made.empty()) return;
  const std::size_t count = made.size();
  for (const Made& one : made) {
    if (one.done) one.done(one.result.outcome, one.result.error);
  }
  made.clear();  // Destroys the callbacks with the mutex free.
  const Lock lock{mutex_};
  telling_ -= count;
  idle_.notify_all();
}

Outcome MemoryStore::State::apply(const Txn& txn) {
  run_hook(txn);
  std::vector<Made> made;
  Result result;
  {
    const Lock lock{mutex_};
    made = make_posted();
    result = step(txn);
  }
  tell(std::move(made));
  if (result.error) std::rethrow_exception(result.error);
  return std::move(result.outcome);
}

void MemoryStore::State::post(Txn txn, const Posted& done) noexcept {
  try {
    run_hook(txn);
    const Lock lock{mutex_};
    start();
    posted_.push_back({std::move(txn), done});
    work_.notify_one();
  } catch (...) {
    if (done) done({}, std::current_exception());
  }
}

// --- watches

bool MemoryStore::State::is_due(const WatchFor& what, std::uint64_t applies) const {
  return std::ranges::any_of(what.ranges,
                             [&](const Range& range) TENURE_REQUIRES(mutex_) {
                               return table_.changed_since(range, what.after, applies);
                             }) ||
         (what.until && *what.until <= time()) ||
         (!what.session.empty() && !sessions_.contains(what.session));
}

void MemoryStore::State::collect(std::uint64_t applies) {
  bool found = false;
  for (auto at = armed_.begin(); at != armed_.end();) {
    if (is_due(at->second->what, applies)) {
      found = true;
      due_.push_back(std::move(at->second));
      at = armed_.erase(at);
    } else {
      ++at;
    }
  }
  if (found) work_.notify_one();
}

std::shared_ptr<MemoryStore::State::Watcher> MemoryStore::State::watch(WatchFor what,
                                                                       Notice notice) {
  auto watcher = std::make_shared<Watcher>(std::move(what), std::move(notice));
  const Lock lock{mutex_};
  start();
  if (is_due(watcher->what, 0)) {
    due_.push_back(watcher);
  } else {
    watcher->number = ++last_watch_;
    armed_.emplace(watcher->number, watcher);
  }
  work_.notify_one();  // Also for its `until`, which may be the earliest.
  return watcher;
}

void MemoryStore::State::unwatch(const std::shared_ptr<Watcher>& watcher) noexcept {
  Notice dropped;  // Destroyed when the mutex is free.
  const Lock lock{mutex_};
  if (running_ == watcher) {
    // The service thread owns the notice, and destroys it before it resets `running_`.
    while (serves != this && running_ == watcher) idle_.wait(mutex_);
    return;
  }
  armed_.erase(watcher->number);
  std::erase(due_, watcher);
  dropped = std::move(watcher->notice);
  idle_.notify_all();
}

// --- sessions

std::pair<std::string, std::shared_ptr<MemoryStore::State::Life>> MemoryStore::State::open(
    const SessionOptions& options) {
  auto life = std::make_shared<Life>();
  std::vector<Made> made;
  std::string id;
  {
    const Lock lock{mutex_};
    made = make_posted();
    id = stores::session_id(++last_session_);
    Txn txn;
    txn.writes.push_back(
        Write::put(std::string{session_prefix} + id, stores::session_entry(options.label, time())));
    sessions_.emplace(id, life);
    write(txn);
  }
  tell(std::move(made));
  return {std::move(id), std::move(life)};
}

void MemoryStore::State::end(const std::string& id, Life& life) {
  std::vector<Made> made;
  {
    const Lock lock{mutex_};
    if (life.ended) return;
    made = make_posted();
    sessions_.erase(id);
    Txn txn;
    txn.writes.push_back(Write::remove(std::string{session_prefix} + id));
    write(txn);
  }
  tell(std::move(made));
}

bool MemoryStore::State::alive(std::string_view id) {
  const Lock lock{mutex_};
  return sessions_.find(id) != sessions_.end();
}

std::shared_ptr<MemoryStore::State::Life> MemoryStore::State::kill(std::string_view id,
                                                                   bool ended) {
  const Lock lock{mutex_};
  const auto at = sessions_.find(id);
  if (at == sessions_.end()) {
    throw BadRequest("memory: there is no live session '" + std::string{id} + "'");
  }
  auto life = std::move(at->second);
  life->ended = ended;
  sessions_.erase(at);
  collect(table_.applies());
  return life;
}

void MemoryStore::State::ring(std::shared_ptr<Life> life) {
  const Lock lock{mutex_};
  std::thread{[state = shared_from_this(), session = std::move(life)] {
    rings_for = state.get();
    session->lost.request_stop();
    const Lock inner{state->mutex_};
    --state->ringing_;
    state->idle_.notify_all();
  }}.detach();  // stop() waits for it by count.
  ++ringing_;
}

// --- the clock

Instant MemoryStore::State::time() const {
  return detail::saturating_add(base_,
                                clock_ == Clock::virtual_time ? advanced_ : base::boot_time());
}

Instant MemoryStore::State::now() {
  const Lock lock{mutex_};
  return time();
}

void MemoryStore::State::advance(std::chrono::nanoseconds by) {
  if (clock_ != Clock::virtual_time) {
    throw BadRequest("memory: cannot advance a real clock: open the store with virtual_time");
  }
  if (by < std::chrono::nanoseconds::zero()) throw BadRequest("memory: cannot move the clock back");
  const Lock lock{mutex_};
  advanced_ = detail::saturating_add(advanced_, by);
  collect(table_.applies());
}

// --- the service thread

void MemoryStore::State::start() {
  if (service_.joinable() || stopping_) return;
  service_ = std::thread{[state = shared_from_this()] { state->serve(); }};
}

void MemoryStore::State::serve() {
  serves = this;
  Lock lock{mutex_};
  while (!stopping_) {
    if (!posted_.empty()) {
      std::vector<Made> made = make_posted();
      lock.unlock();
      tell(std::move(made));
      lock.lock();
      continue;
    }
    collect(table_.applies());
    if (!due_.empty() && !held_) {
      deliver();
    } else {
      idle_.notify_all();
      nap();
    }
  }
}

void MemoryStore::State::deliver() noexcept {
  running_ = std::move(due_.front());
  due_.pop_front();
  Notice notice = std::move(running_->notice);
  mutex_.unlock();
  if (notice) notice();
  notice = nullptr;
  mutex_.lock();
  running_ = nullptr;
  idle_.notify_all();
}

void MemoryStore::State::nap() {
  std::optional<Instant> next;
  if (clock_ == Clock::real) {
    for (const auto& [number, watcher] : armed_) {
      const auto& until = watcher->what.until;
      if (until && (!next || *until < *next)) next = until;
    }
  }
  if (next) {
    work_.wait_for(mutex_, std::clamp(detail::saturating_sub(*next, time()),
                                      std::chrono::nanoseconds{0}, longest_nap));
  } else {
    work_.wait(mutex_);
  }
}

bool MemoryStore::State::busy() const {
  return !posted_.empty() || telling_ > 0 || ringing_ > 0 || running_ != nullptr ||
         (!due_.empty() && !held_);
}

void MemoryStore::State::settle() {
  if (serves == this || rings_for == this) {
    throw BadRequest(
        "memory: settle() must not be called on a thread of the store, where it would deadlock");
  }
  const Lock lock{mutex_};
  collect(table_.applies());
  while (busy()) idle_.wait(mutex_);
}

void MemoryStore::State::stop() {
  std::vector<Made> made;
  std::thread service;
  {
    const Lock lock{mutex_};
    made = make_posted();
    stopping_ = true;
    service = std::move(service_);
    work_.notify_all();
    while (rings_for != this && ringing_ > 0) idle_.wait(mutex_);
  }
  tell(std::move(made));
  if (!service.joinable()) return;
  if (serves == this) {
    service.detach();
  } else {
    service.join();
  }
}

// --- faults, facts

void MemoryStore::State::fail_next(std::size_t count, Fault fault) {
  const Lock lock{mutex_};
  faults_.insert(faults_.end(), count, fault);
}

void MemoryStore::State::hold_notices(bool hold) {
  const Lock lock{mutex_};
  held_ = hold;
  work_.notify_one();
  idle_.notify_all();
}

void MemoryStore::State::set_hook(std::function<void(const Txn&)> hook) {
  const Lock lock{mutex_};
  hook_.swap(hook);  // The old one is destroyed when the mutex is free.
}

std::vector<Store::Fact> MemoryStore::State::facts() {
  const Lock lock{mutex_};
  std::vector<Fact> facts;
  const auto add = [&facts](const char* name, std::string value) {
    facts.push_back({.name = name, .value = std::move(value)});
  };
  add("store", "memory");
  add("clock", clock_ == Clock::virtual_time ? "virtual" : "real");
  add("revision", std::to_string(table_.revision().value));
  add("entries", std::to_string(table_.size()));
  add("sessions", std::to_string(sessions_.size()));
  add("watches", std::to_string(armed_.size() + due_.size()));
  return facts;
}

}  // namespace tenure
