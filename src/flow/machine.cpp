#include <algorithm>

#include "flow/entry.hpp"
#include "tenure/detail/flow_children.hpp"
#include "tenure/detail/flow_machine.hpp"

namespace tenure::detail {
namespace {

constexpr std::size_t shown_operations = 20;

std::uint64_t mix(std::uint64_t value) noexcept {  // splitmix64
  value += 0x9E3779B97F4A7C15U;
  value = (value ^ value >> 30U) * 0xBF58476D1CE4E5B9U;
  value = (value ^ value >> 27U) * 0x94D049BB133111EBU;
  return value ^ value >> 31U;
}

std::optional<OpKind> family(EntryKind kind) noexcept {
  switch (kind) {
    case EntryKind::step_done:
    case EntryKind::step_failed:
    case EntryKind::step_retry:
    case EntryKind::step_cancelled:
    case EntryKind::step_begun: return OpKind::step;
    case EntryKind::slot_done:
    case EntryKind::slot_failed: return OpKind::slot;
    case EntryKind::lock_queued:
    case EntryKind::lock_granted:
    case EntryKind::lock_failed:
    case EntryKind::lock_released: return OpKind::lock;
    case EntryKind::timer: return OpKind::timer;
    case EntryKind::child_started:
    case EntryKind::child_refused: return OpKind::child;
    case EntryKind::child_done:
    case EntryKind::child_failed:
    case EntryKind::patch:
    case EntryKind::update:
    case EntryKind::signal:
    case EntryKind::cancel: break;
  }
  return std::nullopt;
}

}  // namespace

std::string_view text_of(EntryKind kind) noexcept {
  switch (kind) {
    case EntryKind::step_done: return "step done";
    case EntryKind::step_failed: return "step failed";
    case EntryKind::step_retry: return "attempt failed";
    case EntryKind::step_cancelled: return "step cancelled";
    case EntryKind::step_begun: return "step begun";
    case EntryKind::timer: return "timer";
    case EntryKind::signal: return "signal";
    case EntryKind::cancel: return "cancel";
    case EntryKind::slot_done: return "slot";
    case EntryKind::slot_failed: return "slot failed";
    case EntryKind::lock_queued: return "lock queued";
    case EntryKind::lock_granted: return "lock granted";
    case EntryKind::lock_failed: return "lock failed";
    case EntryKind::lock_released: return "lock released";
    case EntryKind::child_started: return "child started";
    case EntryKind::child_refused: return "child refused";
    case EntryKind::child_done: return "child done";
    case EntryKind::child_failed: return "child failed";
    case EntryKind::patch: return "patch";
    case EntryKind::update: return "update";
  }
  return "unknown";
}

std::string_view text_of(OpKind kind) noexcept {
  switch (kind) {
    case OpKind::step: return "step";
    case OpKind::slot: return "slot";
    case OpKind::lock: return "lock";
    case OpKind::timer: return "timer";
    case OpKind::signal: return "signal";
    case OpKind::condition: return "condition";
    case OpKind::child: return "child";
    case OpKind::child_result: return "result of child";
  }
  return "unknown";
}

// --- operations

Operation::~Operation() {
  if (pending_) machine().remove(*this);
}

Machine& Operation::machine() const noexcept { return scope_->machine(); }

std::string Operation::text() const {
  return std::string{text_of(kind_)} + " '" + name_ + "' (scope " + std::to_string(key_.scope) +
         ", sequence " + std::to_string(key_.sequence) + ")";
}

bool Operation::await_ready() {
  cancelled_ = scope_->is_cancelled();
  return cancelled_;
}

void Operation::await_suspend(std::coroutine_handle<> waiter) {
  waiter_ = waiter;
  key_ = {.scope = scope_->number_, .sequence = scope_->next_sequence_++};
  begin();
  machine().add(*this);
}

// --- scopes

Scope::Scope(Machine& machine) noexcept
    : machine_(&machine), next_sequence_(machine.identity().last.sequence + 1) {}

Scope::Scope(Scope& parent, bool shielded)
    : machine_(parent.machine_),
      parent_(&parent),
      next_(parent.first_child_),
      number_(machine_->new_scope()),
      shielded_(shielded),
      cancelled_(!shielded && parent.cancelled_) {
  if (next_ != nullptr) next_->previous_ = this;
  parent.first_child_ = this;
}

Scope::~Scope() {
  if (parent_ == nullptr) return;
  (previous_ != nullptr ? previous_->next_ : parent_->first_child_) = next_;
  if (next_ != nullptr) next_->previous_ = previous_;
}

void Scope::link(Operation& operation) noexcept {
  operation.next_ = first_;
  operation.previous_ = nullptr;
  if (first_ != nullptr) first_->previous_ = &operation;
  first_ = &operation;
}

void Scope::unlink(Operation& operation) noexcept {
  (operation.previous_ != nullptr ? operation.previous_->next_ : first_) = operation.next_;
  if (operation.next_ != nullptr) operation.next_->previous_ = operation.previous_;
}

// NOLINTNEXTLINE(misc-no-recursion): as deep as the program nests its scopes.
void Scope::cancel() {
  if (cancelled_) return;
  cancelled_ = true;
  for (Scope* child = first_child_; child != nullptr; child = child->next_) {
    if (!child->shielded_) child->cancel();
  }
  for (Operation* at = first_; at != nullptr;) {
    Operation& operation = *std::exchange(at, at->next_);
    if (operation.ends_at_once()) {
      machine_->end_cancelled(operation);
    } else {
      operation.cancel_requested_ = true;
      machine_->cancelled_.push_back(operation.key_);
    }
  }
}

std::uint64_t Scope::next_random() noexcept {
  return mix(mix(machine_->identity().seed ^ std::uint64_t{number_} << 32U) + ++randoms_);
}

// --- the machine

void Machine::begin(std::unique_ptr<Root> root) {
  root_ = std::move(root);
  root_->start();
  run_until_quiet();
}

void Machine::add(Operation& operation) {
  operations_.emplace(operation.key_, &operation);
  operation.scope_->link(operation);
  operation.pending_ = true;
  operation.active_ = operation.kind_ == OpKind::step || operation.kind_ == OpKind::slot ||
                      operation.kind_ == OpKind::lock || operation.kind_ == OpKind::child;
  if (operation.active_) ++active_;
  if (operation.kind_ == OpKind::condition) conditions_.push_back(&operation);
  if (operation.kind_ == OpKind::child_result) {
    children_[static_cast<ChildResultBase&>(operation).child()].waiters.push_back(&operation);
  }
  if (operation.kind_ == OpKind::signal) listeners_[operation.name_].push_back(&operation);
  if (operation.active_ || operation.due_) {
    fresh_.push_back(operation.key_);
  }
  // A replay may pass a million operations before somebody takes them.
  if (fresh_.size() > 64 + (2 * operations_.size())) {
    std::erase_if(fresh_, [this](const OpKey& key) {
      const Operation* found = find(key);
      return found == nullptr || found->dispatched_;
    });
  }
}

void Machine::remove(Operation& operation) noexcept {
  operations_.erase(operation.key_);
  operation.scope_->unlink(operation);
  operation.pending_ = false;
  deactivate(operation);
  if (operation.kind_ == OpKind::condition) std::erase(conditions_, &operation);
  if (operation.kind_ == OpKind::child_result) {
    ChildState* const awaited = child(static_cast<ChildResultBase&>(operation).child());
    if (awaited != nullptr) std::erase(awaited->waiters, &operation);
  }
  if (operation.kind_ == OpKind::signal) {
    if (const auto at = listeners_.find(operation.name_); at != listeners_.end()) {
      std::erase(at->second, &operation);
      if (at->second.empty()) listeners_.erase(at);
    }
  }
}

void Machine::deactivate(Operation& operation) noexcept {
  if (std::exchange(operation.active_, false)) --active_;
}

void Machine::release(const OpKey& lock) {
  if (std::erase(held_, lock) == 0) return;
  dropped_.push_back({.key = lock, .kind = OpKind::lock, .due = std::nullopt});
}

void Machine::end(Operation& operation) {
  if (operation.due_) {
    dropped_.push_back({.key = operation.key_, .kind = operation.kind_, .due = operation.due_});
  }
  remove(operation);
  ready_.push_back(operation.waiter_);
}

void Machine::end_cancelled(Operation& operation) {
  operation.cancelled_ = true;
  if (operation.due_ || operation.kind_ == OpKind::lock) {
    dropped_.push_back({.key = operation.key_, .kind = operation.kind_, .due = operation.due_});
  }
  remove(operation);
  ready_.push_back(operation.waiter_);
}

Operation* Machine::find(const OpKey& key) const {
  const auto at = operations_.find(key);
  return at == operations_.end() ? nullptr : at->second;
}

std::vector<OpKey> Machine::take_fresh() {
  std::vector<OpKey> taken = std::exchange(fresh_, {});
  std::erase_if(taken, [this](const OpKey& key) {
    Operation* const operation = find(key);
    return operation == nullptr || std::exchange(operation->dispatched_, true);
  });
  return taken;
}

std::vector<OpKey> Machine::take_cancelled() {
  std::vector<OpKey> taken = std::exchange(cancelled_, {});
  std::erase_if(taken, [this](const OpKey& key) { return find(key) == nullptr; });
  return taken;
}

// NOLINTNEXTLINE(readability-function-cognitive-complexity): one check after the other.
void Machine::deliver(const LogEntry& entry) {
  now_ = std::max(now_, entry.stamp);
  ++entries_;
  if (finish_) mismatch(entry, "the program has already ended");
  if (entry.kind == EntryKind::signal) {
    deliver_signal(entry);
  } else if (entry.kind == EntryKind::child_done || entry.kind == EntryKind::child_failed) {
    deliver_child(entry);
  } else if (entry.kind == EntryKind::update) {
    deliver_update(entry);
  } else if (entry.kind == EntryKind::cancel) {
    root_->scope().cancel();
  } else {
    Operation* const operation = find(entry.key);
    const std::optional<OpKind> kind = family(entry.kind);
    if (operation == nullptr || !kind) mismatch(entry, "the program does not wait for it");
    const bool fits =
        kind == OpKind::timer ? operation->due_.has_value() : kind == operation->kind_;
    if (!fits || entry.name != operation->name_) {
      mismatch(entry, "the program waits for " + operation->text() + " there");
    }
    if (entry.hash != operation->hash_) {
      mismatch(entry, "the program calls " + operation->text() + " with other arguments");
    }
    bool ended = false;
    const std::optional<Instant> due = operation->due_;
    try {
      ended = operation->take(entry);
    } catch (const std::exception& error) {
      mismatch(entry, std::string{"its value has another type: "} + error.what());
    }
    if (ended) {
      if (entry.kind == EntryKind::lock_granted) held_.push_back(operation->key_);
      if (entry.kind == EntryKind::timer) operation->due_.reset();
      end(*operation);
    } else if (entry.kind == EntryKind::step_retry) {
      if (due) {
        dropped_.push_back({.key = operation->key_, .kind = operation->kind_, .due = due});
      }
      operation->dispatched_ = false;
      fresh_.push_back(operation->key_);
    }
  }
  run_until_quiet();
}

bool Machine::patched(const std::string& name) {
  const auto [at, first] = patches_.try_emplace(name, live_);
  if (first && live_) marks_.push_back(name);
  return at->second;
}

// NOLINTNEXTLINE(performance-unnecessary-value-param): it is moved into the table.
void Machine::add_query(const std::string& name, Answer answer) {
  if (!queries_.try_emplace(name, std::move(answer)).second) {
    throw BadRequest("workflow '" + identity_.id + "' has a handler for the query '" + name +
                     "' already");
  }
}

std::string Machine::answer(const std::string& name, std::string_view arguments) const {
  if (const auto at = queries_.find(name); at != queries_.end()) return at->second(arguments);
  std::string known;
  for (const auto& [one, handler] : queries_) known += (known.empty() ? "" : ", ") + one;
  throw BadRequest("workflow '" + identity_.id + "' has no handler for the query '" + name +
                   "'; it answers: " + (known.empty() ? "nothing" : known));
}

OpKey Machine::last() const {
  return {.scope = last_scope_, .sequence = root_ ? root_->scope().next_sequence_ - 1 : 0};
}

void Machine::deliver_signal(const LogEntry& entry) {
  signals_[entry.name].push_back(entry.value);
  const auto waiting = listeners_.find(entry.name);
  if (waiting == listeners_.end()) return;
  Operation& first = *waiting->second.front();
  try {
    if (first.take(entry)) {
      static_cast<void>(take_signal(entry.name));
      end(first);
    }
  } catch (const std::exception& error) {
    mismatch(entry, std::string{"its value has another type: "} + error.what());
  }
}

ChildState* Machine::child(const OpKey& key) {
  const auto at = children_.find(key);
  return at == children_.end() ? nullptr : &at->second;
}

void Machine::deliver_child(const LogEntry& entry) {
  ChildState* const ended = child(entry.key);
  if (ended == nullptr || ended->ended) mismatch(entry, "the program has no such child that runs");
  if (ended->id != entry.name) mismatch(entry, "the program started '" + ended->id + "' there");
  try {
    ended->ended = ChildEnd::of(entry);
    std::vector<Operation*> told = ended->waiters;
    if (Operation* const starter = find(entry.key)) told.push_back(starter);
    for (Operation* const operation : told) {
      if (operation->take(entry)) end(*operation);
    }
  } catch (const std::exception& error) {
    mismatch(entry, std::string{"its value has another type: "} + error.what());
  }
}

std::optional<std::string> Machine::take_signal(const std::string& name) {
  const auto at = signals_.find(name);
  if (at == signals_.end()) return std::nullopt;
  std::string value = std::move(at->second.front());
  at->second.pop_front();
  if (at->second.empty()) signals_.erase(at);
  return value;
}

bool Machine::resume_conditions() {
  const auto at = std::ranges::find_if(conditions_, [](Operation* operation) {
    return static_cast<ConditionBase*>(operation)->holds();
  });
  if (at == conditions_.end()) return false;
  end(**at);
  return true;
}

void Machine::run_until_quiet() {
  do {
    while (!ready_.empty()) {
      const std::coroutine_handle<> next = ready_.front();
      ready_.pop_front();
      next.resume();
    }
  } while (resume_conditions());
}

std::string Machine::waits_for() const {
  if (finish_) return "nothing: it has ended";
  std::vector<const Operation*> all;
  all.reserve(operations_.size());
  for (const auto& [key, operation] : operations_) all.push_back(operation);
  std::ranges::sort(all, {}, [](const Operation* one) {
    return std::pair{one->key().scope, one->key().sequence};
  });
  std::string text;
  for (std::size_t i = 0; i < std::min(all.size(), shown_operations); ++i) {
    text += (i == 0 ? "" : ", ") + all[i]->text();
  }
  if (all.size() > shown_operations) {
    text += " and " + std::to_string(all.size() - shown_operations) + " more";
  }
  return text.empty() ? "nothing" : text;
}

void Machine::mismatch(const LogEntry& entry, const std::string& why) const {
  throw ReplayMismatch("workflow '" + identity_.id + "' of type '" + identity_.type +
                       "' does not fit its log: the log has " + flow::shown(entry) + ", but " +
                       why + "; the program waits for: " + waits_for() +
                       ". Start a program that does what the log has, and the workflow goes on");
}

}  // namespace tenure::detail
