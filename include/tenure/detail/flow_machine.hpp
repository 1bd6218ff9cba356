// flow_machine.hpp: the deterministic inside of one workflow: its frames, what they wait for, and
// the entries that they are fed with. No thread, no clock, no store: the engine feeds it.
//
//   operation  | ends by                                         | when its scope is cancelled
//   -----------+-------------------------------------------------+----------------------------
//   step       | an entry: done, failed or cancelled             | stays, until its entry
//   slot       | an entry: done or failed                        | stays, until its entry
//   lock       | an entry: granted or failed                     | ends at once; not kept
//   timer      | an entry                                        | ends at once
//   signal     | a signal's entry, or its timer's                | ends at once
//   child      | flow_children.hpp                               |
//   condition  | true after any entry, or its timer's entry      | ends at once
//
// Invariants
//   1. What the frames do depends on the entries and their order alone.
//   2. An entry is delivered when everything that the entries before it led to has run.
//   3. An operation is addressed by scope and sequence; the sequence is taken when it is awaited.
//
// Thread safety: none. One thread at a time; each may be another one.
#pragma once

#include <chrono>
#include <coroutine>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tenure/flow_error.hpp"
#include "tenure/store.hpp"

namespace tenure::detail {

struct OpKey {
  std::uint32_t scope = 0;
  std::uint32_t sequence = 0;
  friend bool operator==(const OpKey&, const OpKey&) = default;
};
struct OpKeyHash {
  std::size_t operator()(const OpKey& key) const noexcept {
    const std::uint64_t both = std::uint64_t{key.scope} << 32U | key.sequence;
    return static_cast<std::size_t>((both ^ both >> 29U) * 0x9E3779B97F4A7C15U);
  }
};

// Numbers are stored: never reuse one.
enum class EntryKind : std::uint8_t {
  step_done = 1,
  step_failed = 2,
  step_retry = 3,  // An attempt failed, and another one follows.
  step_cancelled = 4,
  step_begun = 5,  // Of a step that runs at most once.
  timer = 6,
  signal = 7,
  cancel = 8,
  slot_done = 9,
  slot_failed = 10,
  lock_queued = 11,
  lock_granted = 12,
  lock_failed = 13,
  lock_released = 14,
  // 32 to 63: schedules, messages, children.
  child_started = 40,
  child_refused = 41,
  child_done = 42,
  child_failed = 43,  // It ended without a value.
  patch = 44,         // The code after the entry before asked for it the first time.
  update = 45,        // Accepted: value [id, arguments].
};
[[nodiscard]] std::string_view text_of(EntryKind kind) noexcept;

struct LogEntry {
  EntryKind kind = EntryKind::step_done;
  OpKey key;
  Instant stamp;
  std::string name;
  std::uint64_t hash = 0;     // Of the arguments.
  std::uint32_t attempt = 0;  // Of steps.
  std::string value;
  friend bool operator==(const LogEntry&, const LogEntry&) = default;
};

enum class OpKind : std::uint8_t {
  step,
  slot,
  lock,
  timer,
  signal,
  condition,
  child,
  child_result
};
[[nodiscard]] std::string_view text_of(OpKind kind) noexcept;

}  // namespace tenure::detail

namespace tenure {
// What happens to a child that has not ended when its parent ends.
enum class ParentClose : std::uint8_t { cancel, terminate, abandon };
}  // namespace tenure

namespace tenure::detail {

class Machine;
class Operation;
class Scope;

// How a child ended.
struct ChildEnd {
  std::string id;
  FlowState state = FlowState::completed;
  std::string value;  // The result, or an ErrorInfo's text.

  // Of an entry: child_done, or child_failed with {"state":…,"error":…}.
  [[nodiscard]] static ChildEnd of(const LogEntry& entry);
  [[nodiscard]] static LogEntry entry(const OpKey& key, const ChildEnd& end);
  [[noreturn]] void raise() const;
};

// A workflow that this one started, by the operation that did.
struct ChildState {
  std::string id;
  ParentClose on_parent_close = ParentClose::cancel;
  std::optional<ChildEnd> ended;
  std::vector<Operation*> waiters;  // Those that wait for its result.
};

// What a frame may await.
struct AwaitableTag {};

// What a frame waits for; lives in the frame, as the awaiter.
class Operation : public AwaitableTag {
 public:
  Operation(Scope& scope, OpKind kind, std::string name) noexcept
      : scope_(&scope), kind_(kind), name_(std::move(name)) {}
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;
  virtual ~Operation();

  [[nodiscard]] OpKind kind() const noexcept { return kind_; }
  [[nodiscard]] const OpKey& key() const noexcept { return key_; }
  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  [[nodiscard]] std::uint64_t hash() const noexcept { return hash_; }
  [[nodiscard]] const std::optional<Instant>& due() const noexcept { return due_; }
  [[nodiscard]] bool cancel_requested() const noexcept { return cancel_requested_; }
  [[nodiscard]] const Scope& scope() const noexcept { return *scope_; }
  // "step 'charge' (scope 0, sequence 3)"
  [[nodiscard]] std::string text() const;

  [[nodiscard]] bool await_ready();
  void await_suspend(std::coroutine_handle<> waiter);

 protected:
  // The arguments are final, the number is taken: what it is due at, what its hash is.
  virtual void begin() {}
  // Takes an entry of its own kind. True: the operation has ended. Throws where the entry's value
  // is of another type.
  virtual bool take(const LogEntry& entry) = 0;
  void cancelled_by_entry() noexcept { cancelled_ = true; }
  // For await_resume().
  void throw_if_cancelled() const {
    if (cancelled_) throw Cancelled{};
  }
  [[nodiscard]] Machine& machine() const noexcept;

  Scope* scope_;
  std::optional<Instant> due_;
  std::uint64_t hash_ = 0;

  // Whether it does not wait for its entry once its scope is cancelled.
  [[nodiscard]] virtual bool ends_at_once() const noexcept {
    return kind_ != OpKind::step && kind_ != OpKind::slot;
  }

 private:
  friend class Machine;
  friend class Scope;

  OpKind kind_;
  std::string name_;
  OpKey key_;
  std::coroutine_handle<> waiter_;
  Operation* previous_ = nullptr;  // Of its scope.
  Operation* next_ = nullptr;
  bool pending_ = false;
  bool active_ = false;      // Counts in Machine::active().
  bool dispatched_ = false;  // The engine knows it.
  bool cancelled_ = false;
  bool cancel_requested_ = false;
};

// What is cancelled together: the workflow, or one branch of all(), race() or shielded().
class Scope {
 public:
  explicit Scope(Machine& machine) noexcept;
  Scope(Scope& parent, bool shielded);
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;
  ~Scope();

  [[nodiscard]] bool is_cancelled() const noexcept { return cancelled_; }
  [[nodiscard]] std::uint32_t number() const noexcept { return number_; }
  [[nodiscard]] Machine& machine() const noexcept { return *machine_; }
  void cancel();
  // Null: this is the workflow's own.
  [[nodiscard]] const Scope* parent() const noexcept { return parent_; }

 protected:
  [[nodiscard]] std::uint64_t next_random() noexcept;

 private:
  friend class Operation;
  friend class Machine;
  void link(Operation& operation) noexcept;
  void unlink(Operation& operation) noexcept;

  Machine* machine_;
  Scope* parent_ = nullptr;
  Scope* first_child_ = nullptr;
  Scope* previous_ = nullptr;  // Sibling.
  Scope* next_ = nullptr;
  Operation* first_ = nullptr;  // What is pending.
  std::uint32_t number_ = 0;
  std::uint32_t next_sequence_ = 1;
  std::uint32_t randoms_ = 0;
  bool shielded_ = false;
  bool cancelled_ = false;
};

// How the root coroutine ended.
struct Finish {
  enum class Kind : std::uint8_t { returned, threw, cancelled, continued };
  Kind kind = Kind::returned;
  std::string value;  // The result, encoded, an ErrorInfo's text, or the next run's arguments.
};

struct Identity {
  std::string id;
  std::string type;
  std::uint64_t seed = 0;
  Instant started;
  // NOLINTBEGIN(readability-redundant-member-init)
  OpKey last{};        // What earlier runs used: keys of operations are never used again.
  std::string root{};  // The first of its ancestors; empty: it has none.
  // NOLINTEND(readability-redundant-member-init)
};

// A handler of updates.
class UpdateRunner {
 public:
  UpdateRunner() = default;
  UpdateRunner(const UpdateRunner&) = delete;
  UpdateRunner& operator=(const UpdateRunner&) = delete;
  virtual ~UpdateRunner() = default;
  // Throws where the update is to be rejected. Changes nothing.
  virtual void validate(std::string_view arguments) = 0;
  virtual void run(const std::string& id, std::string_view arguments) = 0;
};
struct UpdateEnd {
  std::string id;
  bool ok = false;
  std::string value;  // The result, encoded, or an ErrorInfo's text.
};
// The value of an update's entry and message: its id and its arguments, a JSON array.
struct UpdateCall {
  std::string id;
  std::string arguments;
  [[nodiscard]] std::string text() const;
  // Throws where that is not what text() gives.
  [[nodiscard]] static UpdateCall parse(std::string_view text);
};

class Machine {
 public:
  Machine(Identity identity, const ErrorTypes& errors)
      : identity_(std::move(identity)),
        errors_(&errors),
        now_(identity_.started),
        last_scope_(identity_.last.scope) {}
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;
  ~Machine() { root_.reset(); }

  // A coroutine that was made but not started. Runs it until it waits.
  class Root {
   public:
    Root() = default;
    Root(const Root&) = delete;
    Root& operator=(const Root&) = delete;
    virtual ~Root() = default;
    virtual void start() = 0;
    [[nodiscard]] virtual Scope& scope() = 0;
  };
  void begin(std::unique_ptr<Root> root);

  // Throws ReplayMismatch; the machine is then to be destroyed.
  void deliver(const LogEntry& entry);
  // Null: nothing waits under this key.
  [[nodiscard]] Operation* find(const OpKey& key) const;

  // Operations that began to wait, or wait for a next attempt, since the last call.
  [[nodiscard]] std::vector<OpKey> take_fresh();
  // Operations that stay until their entry although their scope was cancelled since the last call.
  [[nodiscard]] std::vector<OpKey> take_cancelled();
  // Operations with a due time, or a lock, that ended before it since the last call. What a replay
  // drops was removed from the store when it happened.
  struct Dropped {
    OpKey key;
    OpKind kind = OpKind::timer;
    std::optional<Instant> due;
  };
  [[nodiscard]] std::vector<Dropped> take_dropped() { return std::exchange(dropped_, {}); }
  [[nodiscard]] const std::optional<Finish>& finish() const noexcept { return finish_; }
  // Whether the whole workflow was cancelled.
  [[nodiscard]] bool cancelled() const { return root_ && root_->scope().is_cancelled(); }
  // The locks that the workflow holds: the operations that took them.
  [[nodiscard]] const std::vector<OpKey>& held() const noexcept { return held_; }
  // The lock that this operation took is given back: in the transaction of this turn.
  void release(const OpKey& lock);
  // How many operations need the engine to do something: steps without a timer, slots and locks.
  [[nodiscard]] std::size_t active() const noexcept { return active_; }
  [[nodiscard]] std::size_t pending() const noexcept { return operations_.size(); }
  template <class F>
  void each(F f) const {
    for (const auto& [key, operation] : operations_) f(*operation);
  }
  // The workflows that this one started. Nothing: no operation of this key started one.
  [[nodiscard]] ChildState* child(const OpKey& key);
  template <class F>
  void each_child(F f) const {
    for (const auto& [key, child] : children_) f(child);
  }
  // Whether the code takes the new way. Live: yes, and a mark is to be stored. In a replay: only
  // where the log has that mark, which the replay tells before the entry in front of it.
  [[nodiscard]] bool patched(const std::string& name);
  void allow_patch(const std::string& name) { patches_[name] = true; }
  void set_live(bool live) noexcept { live_ = live; }
  [[nodiscard]] std::vector<std::string> take_marks() { return std::exchange(marks_, {}); }
  // The highest scope, and the highest sequence of the root.
  [[nodiscard]] OpKey last() const;
  // Entries that were delivered.
  [[nodiscard]] std::uint32_t entries() const noexcept { return entries_; }
  // Signals that came and were not taken.
  template <class F>
  void each_signal(F f) const {
    for (const auto& [name, values] : signals_) {
      for (const std::string& value : values) f(name, value);
    }
  }
  // Questions that the code answers. Throws BadRequest for one that has a handler already.
  using Answer = std::function<std::string(std::string_view arguments)>;
  void add_query(const std::string& name, Answer answer);
  void remove_query(const std::string& name) { queries_.erase(name); }
  // Throws BadRequest for one without a handler, and what the handler throws.
  [[nodiscard]] std::string answer(const std::string& name, std::string_view arguments) const;
  // Updates. Throws BadRequest for one that has a handler already.
  void add_update(const std::string& name, UpdateRunner& runner);
  void remove_update(const std::string& name);
  // Throws BadRequest for one without a handler, and what the validator throws.
  void validate_update(const std::string& name, std::string_view arguments) const;
  void update_ended(UpdateEnd end);
  // Updates that ended since the last call.
  [[nodiscard]] std::vector<UpdateEnd> take_updates() { return std::exchange(update_ends_, {}); }
  // Ids of those that have not ended, with their names.
  [[nodiscard]] const std::map<std::string, std::string>& updates() const noexcept {
    return updates_;
  }
  // What the program waits for, for people.
  [[nodiscard]] std::string waits_for() const;

  [[nodiscard]] const Identity& identity() const noexcept { return identity_; }
  // The workflow that all of its ancestors' and descendants' slots are named after.
  [[nodiscard]] const std::string& tree() const noexcept {
    return identity_.root.empty() ? identity_.id : identity_.root;
  }
  [[nodiscard]] const ErrorTypes& errors() const noexcept { return *errors_; }
  [[nodiscard]] Instant now() const noexcept { return now_; }

  // For operations, promises and branches.
  void resume_later(std::coroutine_handle<> handle) { ready_.push_back(handle); }
  // Only the first time counts: a branch may continue as new while others end.
  void finished(Finish finish) {
    if (!finish_) finish_ = std::move(finish);
  }
  [[nodiscard]] std::optional<std::string> take_signal(const std::string& name);
  void deactivate(Operation& operation) noexcept;
  void add_child(const OpKey& key, ChildState child) { children_[key] = std::move(child); }
  void remove_child(const OpKey& key) { children_.erase(key); }
  [[nodiscard]] std::uint32_t new_scope() noexcept { return ++last_scope_; }

 private:
  friend class Operation;
  friend class Scope;
  void add(Operation& operation);
  void remove(Operation& operation) noexcept;
  void end(Operation& operation);
  void end_cancelled(Operation& operation);
  void run_until_quiet();
  bool resume_conditions();
  void deliver_signal(const LogEntry& entry);
  void deliver_child(const LogEntry& entry);
  void deliver_update(const LogEntry& entry);
  [[noreturn]] void mismatch(const LogEntry& entry, const std::string& why) const;

  Identity identity_;
  const ErrorTypes* errors_;
  Instant now_;
  std::unordered_map<OpKey, Operation*, OpKeyHash> operations_;
  std::vector<Operation*> conditions_;  // In the order in which they were awaited.
  std::map<std::string, std::deque<Operation*>, std::less<>> listeners_;
  std::map<std::string, std::deque<std::string>, std::less<>> signals_;
  std::unordered_map<OpKey, ChildState, OpKeyHash> children_;
  std::deque<std::coroutine_handle<>> ready_;
  std::vector<OpKey> fresh_;
  std::vector<OpKey> cancelled_;
  std::vector<Dropped> dropped_;
  std::vector<OpKey> held_;
  std::optional<Finish> finish_;
  std::size_t active_ = 0;
  std::map<std::string, Answer> queries_;
  std::map<std::string, UpdateRunner*> runners_;
  std::map<std::string, std::string> updates_;
  std::vector<UpdateEnd> update_ends_;
  std::map<std::string, bool> patches_;
  std::vector<std::string> marks_;  // Patches that were asked for live.
  bool live_ = false;
  std::uint32_t entries_ = 0;
  std::uint32_t last_scope_ = 0;
  std::unique_ptr<Root> root_;  // Last: frames go first.
};

// A condition is asked after each entry.
class ConditionBase : public Operation {
 public:
  using Operation::Operation;
  [[nodiscard]] virtual bool holds() = 0;
};

}  // namespace tenure::detail
