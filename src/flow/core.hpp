// core.hpp: the engine: workflows in memory, timers, messages, places and threads.
//
// Thread safety: all of it, from any thread; define() and errors() before the first other call.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/annotations.hpp"
#include "base/mutex.hpp"
#include "flow/admission.hpp"
#include "flow/executor.hpp"
#include "flow/inbox.hpp"
#include "flow/instance.hpp"
#include "flow/partitions.hpp"
#include "flow/queries.hpp"
#include "flow/queues.hpp"
#include "flow/schedules.hpp"
#include "flow/timers.hpp"
#include "flow/triggers.hpp"
#include "flow/updates.hpp"
#include "tenure/flow.hpp"

namespace tenure::flow {

// What the trigger that starts a workflow has in the same transaction. When the row is not as it
// was, or the reign is over, the start is refused with Superseded.
struct StartPart {
  std::string row_key;
  Revision row_revision;    // Of a row that is not there: none.
  Partition partition = 0;  // Of the row, and the reign in which it was read.
  ReignRef reign;
  std::vector<Write> writes;
  std::string trigger;  // Told of the workflow's end; empty: nobody.
  // Called when the start is committed, with the row's new revision, before the workflow runs.
  std::function<void(Revision)> committed;
};
class Superseded : public Error {
 public:
  using Error::Error;
};

// What the transaction of a start has beside the workflow itself.
struct StartExtra {
  // NOLINTBEGIN(readability-redundant-member-init)
  std::optional<Message> signal{};  // In its inbox.
  std::string message_id{};         // Of the signal; empty: none.
  // Called with the record of a workflow that has this id already; null: AlreadyStarted.
  std::function<void(const Entry& record)> exists{};
  std::string parent{};  // Record::parent.
  std::string root{};    // Record::root.
  // The start is refused with Closed once this does not hold any more, whatever else happens.
  std::optional<Guard> only_if{};
  std::vector<Guard> guards{};
  std::optional<StartPart> part{};  // Of the trigger that starts it.
  // NOLINTEND(readability-redundant-member-init)
};

// A child that a workflow asked for, in a turn that is committed.
struct ChildStart {
  std::string parent;
  std::string root;
  OpKey key;
  ReignRef reign;   // Of the parent.
  Revision record;  // The parent's record as this reign knows it.
  std::string id;
  std::string type;
  std::string input;
  std::optional<Instant> deadline;
  std::map<std::string, std::string> tags;
};

struct CollectCall;

class Core : public std::enable_shared_from_this<Core> {
 public:
  Core(std::shared_ptr<Store> store, EngineOptions options);
  Core(const Core&) = delete;
  Core& operator=(const Core&) = delete;
  ~Core();

  // --- for the engine
  void define(detail::Definition definition);
  [[nodiscard]] detail::ErrorTypes& errors() noexcept { return errors_; }
  void start(std::string_view type, std::string input, StartOptions options,
             Engine::Started started, StartExtra extra = {});
  void start_or_signal(std::string_view type, std::string input, StartOptions options,
                       Signal signal, Engine::Started started);
  // Throws BadRequest where a workflow of this type cannot be started with this input.
  const detail::Definition& check_start(std::string_view type, const std::string& input) const;
  [[nodiscard]] Schedules schedules();
  // A debounced call or an item of a batch: told to the owner of its row.
  void collect(const CollectCall& call, std::string_view id, std::chrono::nanoseconds remember);
  void send(const std::string& id, Message message, std::string_view message_id);
  [[nodiscard]] Run retry(const std::string& id);
  [[nodiscard]] FlowInfo info(const std::string& id);
  void when_ended(const std::string& id, std::function<void(const FlowInfo&)> done);
  [[nodiscard]] std::vector<FlowInfo> list(const FlowFilter& filter);
  [[nodiscard]] std::vector<HistoryEntry> history(const std::string& id, std::uint32_t from,
                                                  std::size_t limit);
  [[nodiscard]] FlowHistory export_history(const std::string& id);
  [[nodiscard]] ReplayReport replay(const FlowHistory& history) const;
  [[nodiscard]] std::string query(const std::string& id, const std::string& name,
                                  const std::string& arguments);
  [[nodiscard]] Update update(UpdateOptions options, const std::string& id, std::string_view name,
                              std::string arguments);
  // Waits until it is accepted, rejected or over, or until it is over.
  [[nodiscard]] UpdateOutcome await_update(const std::string& id, const std::string& update,
                                           bool accepted);
  [[nodiscard]] UpdateOutcome update_outcome(const std::string& id, const std::string& update);
  std::size_t recover_all();
  void drain(bool stop_steps);
  [[nodiscard]] std::size_t resident() const;
  // When the next timer is due, as far as it is known.
  [[nodiscard]] std::optional<Instant> next_timer();

  // --- for instances and triggers
  void begin();
  [[nodiscard]] Partition partition_of(std::string_view id) const {
    return keys::partition_of(id, partitions_->count());
  }
  [[nodiscard]] std::uint32_t partitions() const { return partitions_->count(); }
  [[nodiscard]] ReignRef reign_of(Partition partition) const {
    return partitions_->owner(partition);
  }
  // Adds to an end's transaction what happens to its place.
  [[nodiscard]] Queues::Handover give_back(const std::string& place, Txn& txn) {
    return queues_.give_back(*store_, partitions_->count(), place, txn);
  }
  void gave_back(const Queues::Handover& handover, bool committed);
  // The seat of a queued workflow is free.
  void left_queue(const std::string& seat);
  // Adds the removal of some keys of these ranges. True: those were all.
  [[nodiscard]] bool add_removals(const std::vector<Range>& ranges, Txn& txn);
  [[nodiscard]] Write ended_message(const std::string& trigger, const std::string& id) const;
  [[nodiscard]] Store& store() noexcept { return *store_; }
  [[nodiscard]] const EngineOptions& options() const noexcept { return options_; }
  [[nodiscard]] const detail::Definition* definition(std::string_view type) const;
  [[nodiscard]] bool stopping() const noexcept { return stopping_.load(); }
  [[nodiscard]] bool owns(Partition partition, const ReignRef& reign) const;
  // Work of the engine's own; counted, so that the end waits for it.
  void post(std::function<void()> job);
  // The same for a turn that probably starts a step. Where no step runs, the turn runs on the
  // thread that the step will get.
  void post_turn(std::function<void()> job);
  // The same for a short job: where a batch of the store's callbacks starts steps, it runs on the
  // thread that runs them.
  void post_along(std::function<void()> job);
  void post_at(Instant time, std::function<void()> job);
  // `with` lives until the step's thread has the attempt: what one thread made, it frees again.
  void start_attempt(std::shared_ptr<Instance> instance, std::shared_ptr<Attempt> attempt,
                     std::shared_ptr<void> with);
  // Asks the lock space for it; the answer is an event.
  void ask_lock(const std::string& id, const OpKey& key, Owner owner, std::vector<Claim> claims);
  // Starts it unless that was done before; the answer is an event of the parent.
  void start_child(const ChildStart& child);
  void add_timer(const std::string& key);
  void remove_timer(const std::string& key);
  void message_done(const std::string& key) { inbox_.done(key); }
  void read_inbox() { inbox_.read(); }
  // The workflow dropped messages while it could not go on.
  void read_again(const std::string& id);
  // A message of an inbox, to a trigger or a workflow.
  void deliver(Message message, const std::string& key);
  void ended(const std::string& id, const Record& record);
  void waits(const std::shared_ptr<Instance>& instance);
  void forget(const Instance& instance);  // It has ended, or is another engine's.
  void report(const std::string& id, const std::string& problem);
  void begin_commit() noexcept { ++busy_; }
  // The calling job, with its commit, is all that is under way, and may wait for the store.
  [[nodiscard]] bool alone() const noexcept { return busy_.load() == 2 && !options_.executor; }
  void end_commit() noexcept { done_one(); }
  // The workflow, in memory or to be loaded, gets the event, if its partition is ours. `here`: it
  // runs on this thread.
  void offer(const std::string& id, Event event, bool here = false);

 private:
  struct StartCall;
  struct LockCall;
  struct SignalCall;
  LockCall wait_for_lock(std::shared_ptr<Core> self, std::string id, OpKey key, Owner owner,
                         std::vector<Claim> claims);
  void end_lock_calls();
  // Nothing: the engine has ended.
  [[nodiscard]] std::optional<Locker> locker(const std::string& id, const OpKey& key,
                                             const Owner& owner) const;
  [[nodiscard]] Queries queries();
  void taken(Partition partition);
  void lost(Partition partition);
  [[nodiscard]] std::shared_ptr<Instance> instance(const std::string& id, Partition partition);
  void try_start(const std::shared_ptr<StartCall>& call);
  void judge_start(const std::shared_ptr<StartCall>& call, const Outcome& outcome);
  void try_start_or_signal(const std::shared_ptr<SignalCall>& call);
  static void add_message(const StartCall& call, Txn& txn);
  void judge_refusal(const std::shared_ptr<StartCall>& call);
  [[nodiscard]] bool is_superseded(const StartPart& part, const std::vector<Entry>& row) const;
  void find_place(StartCall& call);
  [[nodiscard]] bool reserve_number(StartCall& call, const std::string& numbered,
                                    std::uint32_t max);
  void find_rate(StartCall& call);
  static void add_limits(const StartCall& call, Txn& txn);
  void look_again(StartCall& call, const Outcome& outcome);
  void give_back_place(StartCall& call);
  void clean(const keys::Timer& timer);
  [[nodiscard]] bool remove_log(const keys::Timer& timer, const Reign& reign);
  [[nodiscard]] bool remove_ended(const keys::Timer& timer, const Reign& reign);
  [[nodiscard]] bool parent_runs(const Record& record);
  void look_for_end(const std::string& id);
  // Of a workflow that others wait for, and that another engine has.
  struct EndWatch {
    std::uint64_t round = 0;  // Of the look that keeps its watch.
    std::unique_ptr<Watch> watch;
  };
  // Returns whether somebody waits for its end.
  [[nodiscard]] bool remove(const Instance& instance);
  void tell_end(const std::string& id, const Record& record);
  [[nodiscard]] std::shared_ptr<Instance> find_instance(const std::string& id) const;
  void reload(const std::string& id);
  void start_retry(const std::string& id, const std::string& as, Engine::Started started);
  void retry_told(const Message& message, const std::string& key);
  bool read_timers(const std::vector<std::pair<Partition, Range>>& wanted);
  void run_attempt(const std::shared_ptr<Instance>& instance,
                   const std::shared_ptr<Attempt>& attempt);
  [[nodiscard]] std::string invoke(const Instance& instance,
                                   const std::shared_ptr<Attempt>& attempt);
  void watch_attempt(const std::shared_ptr<Instance>& instance,
                     const std::shared_ptr<Attempt>& attempt);
  void arm();
  void fire();
  void done_one() noexcept;
  [[nodiscard]] std::optional<Entry> read(const std::string& key);

  const std::shared_ptr<Store> store_;
  const EngineOptions options_;
  std::map<std::string, detail::Definition, std::less<>> definitions_;
  detail::ErrorTypes errors_;
  Admission admission_;
  Queues queues_;
  Triggers triggers_{*this};
  Inbox inbox_{*this};

  std::atomic<bool> stopping_{false};
  std::atomic<bool> steps_stopped_{false};  // What steps return from now on is ignored.
  std::atomic<std::size_t> busy_{0};        // Jobs and commits that are under way.
  std::shared_ptr<Executor> jobs_;
  std::shared_ptr<Executor> steps_;
  std::shared_ptr<Partitions> partitions_;

  base::Mutex begin_mutex_;
  bool begun_ TENURE_GUARDED_BY(begin_mutex_) = false;
  std::atomic<bool> running_{false};

  mutable base::Mutex mutex_;
  std::condition_variable_any idle_;
  std::unordered_map<std::string, std::shared_ptr<Instance>> instances_ TENURE_GUARDED_BY(mutex_);
  std::list<std::string> waiting_ TENURE_GUARDED_BY(mutex_);  // Longest waiting first.
  std::unordered_map<std::string, std::list<std::string>::iterator> waiting_at_
      TENURE_GUARDED_BY(mutex_);
  std::multimap<std::string, std::function<void(const FlowInfo&)>> listeners_
      TENURE_GUARDED_BY(mutex_);
  bool drained_ TENURE_GUARDED_BY(mutex_) = false;
  std::map<std::string, EndWatch> end_watches_ TENURE_GUARDED_BY(mutex_);
  std::set<void*> lock_calls_ TENURE_GUARDED_BY(mutex_);  // Frames.

  // The steps that run or wait for a thread, in parts, so that threads rarely meet.
  struct Attempts {
    base::Mutex mutex;
    std::unordered_set<std::shared_ptr<Attempt>> all TENURE_GUARDED_BY(mutex);
  };
  std::array<Attempts, 16> attempts_;
  [[nodiscard]] Attempts& attempts_with(const Attempt& attempt) noexcept;

  // Timers: what is next, and the watch that tells.
  base::Mutex fire_mutex_;
  base::Mutex timer_mutex_;
  std::map<Partition, TimerWindow> windows_ TENURE_GUARDED_BY(timer_mutex_);
  std::multimap<Instant, std::function<void()>> later_ TENURE_GUARDED_BY(timer_mutex_);
  std::optional<Instant> armed_ TENURE_GUARDED_BY(timer_mutex_);
  std::unique_ptr<Watch> alarm_ TENURE_GUARDED_BY(timer_mutex_);
};

}  // namespace tenure::flow
