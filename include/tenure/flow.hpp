// flow.hpp: durable workflows: the engine that runs them. What a workflow can do is in context.hpp.
//
//   tenure::Engine engine{tenure::store("sqlite:app.db")};
//   engine.define("transfer", transfer, {.concurrency = {.max = 2, .key = &Order::customer}});
//   engine.recover_all();                          // What other processes left unfinished.
//   auto run = engine.start("transfer", order);    // Throws ConcurrencyLimit when full.
//   Receipt receipt = run.result<Receipt>();
//
//   state       | leads to                                            | by
//   ------------+-----------------------------------------------------+-------------------------
//   queued      | running or scheduled; cancelled, timed-out          | a place; cancel, deadline
//   scheduled   | running; cancelled                                  | its time; cancel
//   running     | completed, failed                                   | its coroutine ends
//               | cancelled, timed-out                                | cancel, terminate, deadline
//
// Invariants
//   1. A result that is in the log is never computed again.
//   2. A step starts when everything before it is in the store, synced.
//   3. The end of a workflow, its result and everything it gives back are one transaction.
//   4. A workflow that waits is a row of the store; it costs memory only while there is room.
//
// Thread safety: define() and error_type() before anything else, on one thread; all other calls
// from any thread, at once.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "tenure/codec.hpp"
#include "tenure/collect.hpp"
#include "tenure/context.hpp"
#include "tenure/flow_error.hpp"
#include "tenure/flow_history.hpp"
#include "tenure/flow_message.hpp"
#include "tenure/flow_update.hpp"
#include "tenure/schedule.hpp"
#include "tenure/store.hpp"

namespace tenure {

// Where the engine's work is done: a pool of threads, or a test's own loop.
class Executor {
 public:
  Executor() = default;
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;
  virtual ~Executor() = default;
  // The job runs later, never inside this call. It does not throw.
  virtual void post(std::function<void()> job) = 0;
};

struct EngineOptions {
  std::size_t step_threads = 16;
  // Workflows that wait are kept in memory up to this number; others are replayed when needed.
  std::size_t resident = 1024;
  Durability durability = Durability::full;
  std::string label{};  // NOLINT(readability-redundant-member-init)
  // On stores whose sessions are leases: other engines take over the work of an engine that has
  // been silent for so long.
  std::chrono::milliseconds lease{10'000};
  // How many partitions a new store gets. One that has been used keeps its number.
  std::uint32_t partitions = 64;
  // Workflows that end are removed so long after it, with everything that belongs to them; zero:
  // never. A child stays as long as its parent runs.
  std::chrono::nanoseconds retention{};  // NOLINT(readability-redundant-member-init)
  // A workflow whose log would get more entries than this fails with type "history-limit" instead:
  // let it continue as new before. on_problem is told at four fifths of it.
  std::uint32_t history_limit = 10'000'000;
  // Told when a workflow cannot go on here, or its code ran for over a second without an await.
  // NOLINTBEGIN(readability-redundant-member-init)
  std::function<void(const std::string& id, const std::string& message)> on_problem{};
  // For tests. Null: threads of the engine's own; a random generator.
  std::shared_ptr<Executor> executor{};
  std::function<std::uint64_t()> random{};
  // Called instead of a step's function, with its name and its arguments as a JSON array; nothing:
  // the function is called.
  std::function<std::optional<std::string>(const std::string& step, const std::string& arguments,
                                           StepContext& context)>
      instead{};
  // NOLINTEND(readability-redundant-member-init)
};

// A limit on the runs of a type that have not ended, by a key of the arguments or for all of them.
template <class... A>
struct Concurrency {
  std::uint32_t max = 0;  // 0: no limit.
  std::function<std::string(const A&...)> key = nullptr;
  // So many starts may wait for a place, first come, first served; 0: a start that finds none
  // throws ConcurrencyLimit. When all wait, a start throws QueueFull.
  std::uint32_t queue = 0;
};
// A limit on starts per time. It counts when a start is accepted, not when a queued one gets in.
template <class... A>
struct Rate {
  std::uint32_t max = 0;           // 0: no limit.
  std::chrono::nanoseconds per{};  // No period as long as this has more than `max` starts.
  std::function<std::string(const A&...)> key = nullptr;
  // A start may be put off by up to this; else it throws RateLimit.
  std::chrono::nanoseconds wait{};
};
template <class... A>
struct FlowOptions {
  // NOLINTBEGIN(readability-redundant-member-init)
  Concurrency<A...> concurrency{};
  Rate<A...> rate{};
  // NOLINTEND(readability-redundant-member-init)
};

struct StartOptions {
  // NOLINTBEGIN(readability-redundant-member-init)
  std::string id{};  // Empty: a new one.
  // A second start with the same key starts nothing and returns the first one's run.
  std::string idempotency_key{};
  std::optional<Instant> at{};        // By the store's clock; or
  std::chrono::nanoseconds after{};   // so long from now.
  std::optional<Instant> deadline{};  // It is cancelled then, and ends timed-out.
  std::map<std::string, std::string> tags{};
  // NOLINTEND(readability-redundant-member-init)
};

struct FlowInfo {
  std::string id;
  std::string type;
  FlowState state = FlowState::running;
  Instant created;
  Instant starts;
  std::optional<Instant> deadline;
  std::optional<Instant> ended;
  std::map<std::string, std::string> tags;
  std::string input;      // JSON array of the arguments.
  std::string result;     // Of a completed one.
  ErrorInfo error;        // Of one that ended otherwise.
  std::string parent;     // The workflow that started it; empty: none.
  std::uint32_t run = 0;  // How often it has continued as new.
  std::string problem;    // Why this engine cannot go on with it; empty: it can.
  // Of a queued one; 0: it is next.
  std::optional<std::size_t> position{};  // NOLINT(readability-redundant-member-init)
};

struct FlowFilter {
  // NOLINTBEGIN(readability-redundant-member-init)
  std::string type{};  // Empty: all.
  std::optional<FlowState> state{};
  std::map<std::string, std::string> tags{};  // All of these.
  std::optional<Instant> created_from{};
  std::optional<Instant> created_before{};
  std::string after{};  // The last one of the page before; empty: the first page.
  std::size_t limit = 1000;
  // NOLINTEND(readability-redundant-member-init)
};

struct HistoryEntry {
  std::uint32_t order = 0;
  std::string kind;
  std::string name;
  std::uint32_t scope = 0;
  std::uint32_t sequence = 0;
  std::uint32_t attempt = 0;
  Instant stamp;
  std::string value;
};

namespace flow {
class Core;
}

namespace detail {

// A workflow type without its C++ types.
struct Definition {
  std::string type;
  std::uint32_t max = 0;
  std::uint32_t queue = 0;
  std::uint32_t rate_max = 0;
  std::chrono::nanoseconds rate_per{};
  std::chrono::nanoseconds rate_wait{};
  std::function<std::string(std::string_view input)> rate_key;  // Null: none.
  std::function<std::unique_ptr<Machine::Root>(Machine&, std::string_view input)> make;
  std::function<void(std::string_view input)> check;
  std::function<std::string(std::string_view input)> key;  // Null: none.
};

template <class R, class... A>
class RootOf final : public Machine::Root, public EndListener {
 public:
  RootOf(Machine& machine, Flow<R> (*function)(Context&, A...), std::tuple<A...> arguments)
      : context_(machine) {
    std::apply([&](A&... argument) { flow_ = function(context_, std::move(argument)...); },
               arguments);
  }
  void start() override { flow_.start(*this, 0); }
  [[nodiscard]] Scope& scope() override { return context_; }
  void ended(std::size_t /*index*/) noexcept override {
    Finish finish;
    try {
      if constexpr (std::is_void_v<R>) {
        flow_.take();
        finish.value = "null";
      } else {
        finish.value = encode_result(flow_.take());
      }
    } catch (const Cancelled&) {
      finish.kind = Finish::Kind::cancelled;
    } catch (...) {
      finish.kind = Finish::Kind::threw;
      finish.value = context_.machine().errors().describe(std::current_exception()).text();
    }
    context_.machine().finished(std::move(finish));
  }

 private:
  Context context_;
  Flow<R> flow_;  // Last: its frames go first.
};

}  // namespace detail

// A workflow that was started. A value: copies are the same run.
class Run {
 public:
  Run(std::shared_ptr<flow::Core> core, std::string id)
      : core_(std::move(core)), id_(std::move(id)) {}
  [[nodiscard]] const std::string& id() const noexcept { return id_; }
  // Waits for the end. Throws WorkflowFailed where that is not a value.
  template <class T = void>
  T result() const {  // NOLINT(modernize-use-nodiscard): some only wait.
    const std::string text = wait();
    if constexpr (!std::is_void_v<T>) return detail::decode_result<T>(text);
  }
  // The same without waiting: what is stored now.
  [[nodiscard]] FlowInfo info() const;
  // Called once when it has ended, on a thread of the engine's, or at once. Must not block.
  void then(std::function<void(const FlowInfo&)> done) const;

 private:
  [[nodiscard]] std::string wait() const;
  std::shared_ptr<flow::Core> core_;
  std::string id_;
};

class Engine {
 public:
  explicit Engine(std::shared_ptr<Store> store, EngineOptions options = {});
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;
  // As drain(), and asks running steps to stop.
  ~Engine();

  // `function` captures nothing: its frame is made again in other processes.
  template <class R, class... A>
  void define(std::string type, Flow<R> (*function)(Context&, A...),
              std::type_identity_t<FlowOptions<A...>> options = {}) {
    detail::Definition definition;
    definition.type = std::move(type);
    definition.max = options.concurrency.max;
    definition.make = [function](detail::Machine& machine, std::string_view input) {
      return std::make_unique<detail::RootOf<R, A...>>(machine, function,
                                                       detail::decode_arguments<A...>(input));
    };
    definition.check = [](std::string_view input) {
      static_cast<void>(detail::decode_arguments<A...>(input));
    };
    definition.queue = options.concurrency.queue;
    definition.rate_max = options.rate.max;
    definition.rate_per = options.rate.per;
    definition.rate_wait = options.rate.wait;
    definition.key = key_of<A...>(std::move(options.concurrency.key));
    definition.rate_key = key_of<A...>(std::move(options.rate.key));
    add(std::move(definition));
  }
  template <class F>
    requires(std::is_class_v<F>)
  void define(std::string type, F function) {
    static_assert(std::is_empty_v<F>,
                  "a workflow captures nothing: pass what it needs as arguments");
    define(std::move(type), +function);
  }
  // Errors of this class keep their class when a workflow catches them.
  template <class E>
  void error_type(const std::string& name) {
    errors().add<E>(name);
  }

  // The workflow is in the store when this returns.
  template <class... A>
  Run start(std::string_view type, const A&... arguments) {
    return begin(type, encode(arguments...), {});
  }
  template <class... A>
  Run start(StartOptions options, std::string_view type, const A&... arguments) {
    return begin(type, encode(arguments...), std::move(options));
  }
  // The same without waiting: many starts share one sync. `started` gets the run or the error, on a
  // thread of the engine's or the store's; it must not block.
  using Started = std::function<void(std::optional<Run> run, const std::exception_ptr& error)>;
  template <class... A>
  void start_then(Started started, StartOptions options, std::string_view type,
                  const A&... arguments) {
    begin_then(type, encode(arguments...), std::move(options), std::move(started));
  }

  // One atomic step: either the workflow of this id (options.id) is started with the signal in its
  // inbox, or the one that has not ended gets the signal. With a message id the call may be
  // repeated: the signal is sent once. Throws WorkflowEnded where the workflow has ended.
  template <class... A>
  Run start_or_signal(StartOptions options, Signal signal, std::string_view type,
                      const A&... arguments) {
    return begin_or_signal(type, encode(arguments...), std::move(options), std::move(signal));
  }
  template <class... A>
  void start_or_signal_then(Started started, StartOptions options, Signal signal,
                            std::string_view type, const A&... arguments) {
    begin_or_signal_then(type, encode(arguments...), std::move(options), std::move(signal),
                         std::move(started));
  }

  // Throws NoSuchWorkflow.
  [[nodiscard]] Run run(const std::string& id);
  // A signal with an id that the workflow was sent before is dropped. Throws NoSuchWorkflow,
  // WorkflowEnded.
  template <class T>
  void signal(const std::string& id, std::string_view name, const T& value,
              std::string_view message_id = {}) {
    send_signal(id, name, detail::encode_result(value), message_id);
  }
  void signal(const std::string& id, std::string_view name, const char* value,
              std::string_view message_id = {}) {
    signal(id, name, std::string{value}, message_id);
  }
  // The workflow's awaits throw Cancelled; it may clean up and decides how it ends.
  void cancel(const std::string& id);
  // A workflow that failed, was cancelled or timed out is started again, from its beginning, as a
  // new one with the same type and arguments; its id is the old one with "~2" behind it ("~3", …),
  // its tag "retry_of" the old id. One that cannot go on here (FlowInfo::problem) is loaded again;
  // any other one that has not ended just goes on. Throws NoSuchWorkflow, and BadRequest for one
  // that has completed.
  Run retry(const std::string& id);
  // Ends the workflow without running its code again, and releases what it holds. Also ends one
  // that cannot go on here; children that it had started are then cancelled.
  void terminate(const std::string& id, std::string_view reason = {});

  [[nodiscard]] std::vector<FlowInfo> list(const FlowFilter& filter = {});
  [[nodiscard]] std::vector<HistoryEntry> history(const std::string& id, std::uint32_t from = 0,
                                                  std::size_t limit = 10'000);

  // Calls the workflow's handler (Context::on_query) on its stored state, and changes nothing. It
  // costs a replay. Throws NoSuchWorkflow, WorkflowEnded, BadRequest where it has no such handler,
  // and what the handler throws.
  template <class R, class... A>
  [[nodiscard]] R query(const std::string& id, const std::string& name, const A&... arguments) {
    return detail::decode_result<R>(ask(id, name, encode(arguments...)));
  }

  // Calls the workflow's handler (Context::on_update), in its engine, and waits for the result. The
  // update is in the workflow's log. Throws NoSuchWorkflow, WorkflowEnded, UpdateRejected and
  // UpdateFailed (flow_update.hpp).
  template <class R = void, class... A>
  R update(const std::string& id, std::string_view name, const A&... arguments) {
    return send_update({}, id, name, arguments...).template result<R>();
  }
  // The same without waiting: it is in the store when this returns.
  template <class... A>
  Update send_update(UpdateOptions options, const std::string& id, std::string_view name,
                     const A&... arguments) {
    return begin_update(std::move(options), id, name, encode(arguments...));
  }

  // The whole stored history of a workflow. Throws NoSuchWorkflow.
  [[nodiscard]] FlowHistory export_history(const std::string& id);
  // Whether the definitions of this engine do what the history has. Touches no store.
  [[nodiscard]] ReplayReport replay(const FlowHistory& history) const;

  // Starts workflows by itself from now on (schedule.hpp). A program calls this each time it
  // starts: the same schedule again changes nothing, another one with this id replaces the times.
  template <class... A>
  void schedule(ScheduleOptions options, std::string_view type, const A&... arguments) {
    put_schedule(std::move(options), type, encode(arguments...));
  }
  // By id. The calls below throw NoSuchSchedule.
  [[nodiscard]] std::vector<ScheduleInfo> schedules();
  [[nodiscard]] ScheduleInfo schedule_info(const std::string& id);
  // Times that pass meanwhile are not caught up with.
  void pause_schedule(const std::string& id);
  void resume_schedule(const std::string& id);
  // As if a time of the schedule was now; paused or not.
  void trigger_schedule(const std::string& id);
  void remove_schedule(const std::string& id);  // Its runs go on.

  // Of many calls with one key one workflow starts, with the arguments of the last (collect.hpp).
  template <class... A>
  void debounce(const DebounceOptions& options, std::string_view type, const A&... arguments) {
    call_debounced(options, type, encode(arguments...));
  }
  // Collects items by key; one workflow starts with a list of them, a std::vector of their type
  // (collect.hpp).
  template <class T>
  void batch(const BatchOptions& options, std::string_view type, const T& item) {
    using Item = std::remove_cvref_t<decltype(stored(item))>;
    static_assert(Codec<Item>::is_json, "the items of a batch are JSON");
    add_to_batch(options, type, Codec<Item>::encode(stored(item)));
  }

  // Goes on with what engines before left unfinished. Returns when all of it is loaded; how many.
  std::size_t recover_all();
  // Takes no more work, and returns when running steps have ended and their results are stored.
  void drain();

  // How many workflows are in memory.
  [[nodiscard]] std::size_t resident() const;
  // When the engine will look at its timers next; nothing: none is due within its window.
  [[nodiscard]] std::optional<Instant> next_timer() const;

 private:
  template <class... A>
  [[nodiscard]] static std::string encode(const A&... arguments) {
    return detail::encode_arguments(stored(arguments)...);
  }
  template <class A>
  [[nodiscard]] static decltype(auto) stored(const A& argument) {
    if constexpr (std::is_convertible_v<const A&, std::string_view> &&
                  !std::is_same_v<A, std::string>) {
      return std::string{std::string_view{argument}};
    } else {
      return (argument);
    }
  }
  template <class... A>
  [[nodiscard]] static std::function<std::string(std::string_view)> key_of(
      std::function<std::string(const A&...)> key) {
    if (!key) return nullptr;
    return [key = std::move(key)](std::string_view input) {
      return std::apply(key, detail::decode_arguments<A...>(input));
    };
  }
  void add(detail::Definition definition);
  [[nodiscard]] detail::ErrorTypes& errors();
  [[nodiscard]] Run begin(std::string_view type, std::string input, StartOptions options);
  void begin_then(std::string_view type, std::string input, StartOptions options, Started started);
  [[nodiscard]] Run begin_or_signal(std::string_view type, std::string input, StartOptions options,
                                    Signal signal);
  void begin_or_signal_then(std::string_view type, std::string input, StartOptions options,
                            Signal signal, Started started);
  [[nodiscard]] std::string ask(const std::string& id, const std::string& name,
                                const std::string& arguments);
  void send_signal(const std::string& id, std::string_view name, std::string value,
                   std::string_view message_id);
  void put_schedule(ScheduleOptions options, std::string_view type, std::string input);
  [[nodiscard]] Update begin_update(UpdateOptions options, const std::string& id,
                                    std::string_view name, std::string arguments);
  void call_debounced(const DebounceOptions& options, std::string_view type, std::string input);
  void add_to_batch(const BatchOptions& options, std::string_view type, std::string item);

  std::shared_ptr<flow::Core> core_;
};

}  // namespace tenure
