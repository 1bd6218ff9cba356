// instance.hpp: one workflow in memory: its machine, what is delivered to it, and the one
// transaction at a time that stores what happened.
//
//   mailbox --- pump: deliver, run code, collect ---> transaction --- committed ---> steps start
//      ^                                                                                 |
//      '----------------------------- results, timers, messages <------------------------'
//
// Invariants
//   1. One pump at a time, and none while a transaction is being committed.
//   2. What a turn delivers and what the code decides at once are one transaction.
//   3. Steps start, timers count and results are told when that transaction is committed.
//   4. A transaction that is refused or fails ends the frames; the workflow is read anew.
//
// Thread safety: offer() from any thread. Everything else runs in the pump.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/annotations.hpp"
#include "base/mutex.hpp"
#include "flow/entry.hpp"
#include "flow/keys.hpp"
#include "flow/partitions.hpp"
#include "flow/queues.hpp"
#include "tenure/context.hpp"
#include "tenure/detail/flow_machine.hpp"

namespace tenure::flow {

class Core;

// The request id of a workflow's lock: each has an anchor of its own.
inline constexpr std::uint64_t lock_request = 1;

// One run of a step's function.
struct Attempt {
  OpKey key;
  std::uint32_t number = 1;
  std::string step;
  std::shared_ptr<const detail::StepCall> call;
  // Without a state where its function cannot ask for it.
  std::stop_source stop{std::nostopstate};
  std::chrono::nanoseconds heartbeat{};  // Zero: none is asked for.
  std::optional<Instant> ends;           // At its time limit.
  std::atomic<std::int64_t> last_beat{0};
  std::atomic<bool> abandoned{false};  // What it returns from now on is ignored.

  // Whether anybody may have to find it while it runs.
  [[nodiscard]] bool is_listed() const noexcept {
    return stop.stop_possible() || ends || heartbeat.count() > 0;
  }
};

struct Event {
  struct Load {};  // Only wants the workflow to be in memory.
  struct Told {    // A message, or null key: it was not one.
    Message message;
    std::string key;
  };
  struct Timer {
    keys::Timer timer;
  };
  struct Ended {  // An attempt returned, threw, or its time was over.
    OpKey key;
    std::uint32_t attempt = 0;
    bool ok = false;
    std::string value;  // Or an ErrorInfo's text.
  };
  struct Slot {  // It is the slot operation's turn.
    OpKey key;
    std::uint32_t tries = 0;
  };
  struct Lock {  // It was granted, or failed.
    OpKey key;
    bool granted = false;
    std::string value;  // The token, or an ErrorInfo's text.
  };
  struct Child {  // A child was started, or refused.
    OpKey key;
    bool started = false;
    std::string value;  // Or an ErrorInfo's text.
  };
  struct Recorded {  // Is in the log already.
    LogEntry entry;
  };
  std::variant<Load, Told, Timer, Ended, Slot, Lock, Child, Recorded> what;
};

class Instance : public std::enable_shared_from_this<Instance> {
 public:
  Instance(Core& core, std::string id, Partition partition, ReignRef reign);
  // It was just started by this engine: there is nothing to read.
  Instance(Core& core, std::string id, Partition partition, ReignRef reign, Record record,
           Revision revision);
  Instance(const Instance&) = delete;
  Instance& operator=(const Instance&) = delete;
  ~Instance();

  [[nodiscard]] const std::string& id() const noexcept { return id_; }
  [[nodiscard]] Partition partition() const noexcept { return partition_; }
  [[nodiscard]] const ReignRef& reign() const noexcept { return reign_; }
  // Of its record while it runs, as this engine saw it last; none: not read yet.
  [[nodiscard]] Revision record_revision() const noexcept { return record_revision_.load(); }

  // False: the instance is gone; ask for it anew. `here`: pump on this thread.
  bool offer(Event event, bool here = false);
  // True: it waits, and is gone now. Only while nothing runs.
  bool try_evict();
  // Its partition is another engine's: it does nothing any more.
  void abandon();
  [[nodiscard]] std::string problem() const;
  // It cannot go on: it takes this message, which ends it without its code. False: it can go on.
  bool end_stuck(Event::Told terminate);

 private:
  // What a turn writes, and what happens when that is committed.
  struct Turn final : Deferred {
    void done(std::shared_ptr<Deferred> self) noexcept override;

    std::shared_ptr<Instance> instance;  // While the store has the turn.
    Instant now;
    std::vector<Event> events;
    std::optional<std::uint32_t> first_order;  // Of the entries that it writes.
    std::vector<std::shared_ptr<Attempt>> starts;
    std::vector<std::string> new_timers;
    std::vector<std::string> old_timers;
    std::vector<std::string> told;  // Keys of messages that are done.
    std::vector<OpKey> slots;
    struct Lock {
      OpKey key;
      Owner owner;
      std::vector<Claim> claims;
    };
    std::vector<Lock> locks;                     // To ask for.
    std::vector<OpKey> children;                 // To start.
    std::uint32_t messages = 0;                  // To other workflows.
    std::map<std::string, std::string> updates;  // By id: what is stored of them.
    std::optional<LogEntry> recorded;            // Of a slot's own transaction.
    std::optional<Event::Slot> slot;
    std::optional<bool> runnable_row;
    bool result = false;            // It has an entry that is neither a signal nor a patch.
    bool full = false;              // The log has no room for more.
    bool continued = false;         // The workflow continues as new.
    std::unique_ptr<Record> ended;  // Most turns have none, and are small.
    // Of an end with a place: its transaction without what happens to the place.
    std::optional<Txn> without_place;
    Queues::Handover handover;
    std::string left_seat;  // Of the queue.
    std::uint32_t tries = 0;
  };
  static constexpr std::uint32_t max_end_tries = 100;
  static constexpr std::uint32_t max_slot_tries = 100;

  void pump(std::vector<Event> events = {});
  bool turn(std::vector<Event>& events);
  void retry(std::vector<Event> events);
  bool load(std::vector<Event>& events);
  void replay(std::vector<Entry> entries, std::string_view row);
  [[nodiscard]] LogEntry decoded(const Entry& stored);
  void note(const LogEntry& entry);
  void begin_machine(std::span<const LogEntry> first, bool live);
  void begin_code();
  void clear_away(std::vector<Event>& events);
  void handle(Event& event, Turn& turn);
  void handle_told(const Event::Told& told, Turn& turn);
  void handle_lock(const Event::Lock& event, Turn& turn);
  void add_timers(Turn& turn);
  void handle_timer(const Event::Timer& event, Turn& turn);
  void handle_update(const Message& message, Turn& turn);
  void store_updates(Turn& turn);
  void handle_child(const Event::Child& event, Turn& turn);
  void handle_child_ended(const Message& message, Turn& turn);
  void start_children(Turn& turn);
  void send(const Message& message, Turn& turn);
  void tell_children(Turn& turn);
  void tell_family(const Record& ended, Turn& turn);
  void handle_ended(const Event::Ended& ended, Turn& turn);
  // Feeds the code, and reports it if it keeps its thread for long.
  void deliver(const LogEntry& entry);
  [[nodiscard]] bool has_room(Turn& turn);
  void append(LogEntry entry, Turn& turn);
  void append_note(EntryKind kind, std::string name, std::string value, Turn& turn);
  void append_for(const detail::Operation& operation, EntryKind kind, std::uint32_t attempt,
                  std::string value, Turn& turn);
  void collect(Turn& turn);
  void cancel_child(const detail::ChildBase& child, Turn& turn);
  void cancel_step(const OpKey& key, Turn& turn);
  void dispatch(detail::Operation& operation, Turn& turn);
  void dispatch_step(detail::StepBase& step, Turn& turn);
  void start_attempt(detail::StepBase& step, Turn& turn);
  [[nodiscard]] std::string timer_key(const OpKey& key, Instant due) const;
  void add_timer(const OpKey& key, Instant due, Turn& turn);
  void remove_timer(const OpKey& key, Instant due, Turn& turn);
  void end(FlowState state, std::string result, Turn& turn);
  void drop_lock(const OpKey& key, Turn& turn);
  void drop_work(Turn& turn);
  void drop_stuck_work(Turn& turn);
  void continue_as_new(const std::string& input, Turn& turn);
  void begin_next_run();
  void append_patches(Turn& turn);
  void run_slot(const Event::Slot& slot, Turn& turn);
  void commit(std::shared_ptr<Turn> turn);
  void apply(std::shared_ptr<Turn> turn);
  void applied(std::shared_ptr<Turn> turn);
  void committed(const std::shared_ptr<Turn>& turn);
  void after(const std::shared_ptr<Turn>& own);
  void set_problem(std::string text);
  void go();  // The instance is gone.

  Core& core_;
  const std::string id_;
  const Partition partition_;
  const ReignRef reign_;
  std::string log_prefix_;  // The pump's: of the run that the record has.

  mutable base::Mutex mutex_;
  std::vector<Event> mailbox_ TENURE_GUARDED_BY(mutex_);
  bool pumping_ TENURE_GUARDED_BY(mutex_) = false;
  bool committing_ TENURE_GUARDED_BY(mutex_) = false;
  bool gone_ TENURE_GUARDED_BY(mutex_) = false;
  bool reload_ TENURE_GUARDED_BY(mutex_) = false;
  std::string problem_ TENURE_GUARDED_BY(mutex_);

  // The pump's.
  std::unique_ptr<detail::Machine> machine_;
  std::optional<Record> record_;
  std::atomic<Revision> record_revision_;  // Read by any thread.
  std::uint32_t next_order_ = 0;
  bool runnable_row_ = false;
  bool fresh_row_ = false;  // It says that code has not run yet: keys::nothing_ran, after_last.
  bool begun_ = false;
  bool deadline_passed_ = false;
  std::atomic<bool> stuck_ = false;  // It is to be ended without a replay.
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::shared_ptr<Attempt>> running_;
  // Locks that were granted while it was in memory: what removes their tickets.
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::vector<Write>> tickets_;
  std::uint32_t failures_ = 0;  // Of the store, one after another.
};

}  // namespace tenure::flow
