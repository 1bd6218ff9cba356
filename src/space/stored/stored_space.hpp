// stored_space.hpp: the space in a store: every process, every machine that reaches it.
//
// A request appends its ticket and looks back in the same apply; free, that is all. When it has to
// wait, it names what is in its way, watches that, and looks again when it goes or changes. Nothing
// about a grant is written: whoever can read the tickets can tell who holds.
//
//   a ticket's entries | its waiter    | what it is here
//   -------------------+---------------+---------------------------------------------
//   perhaps there      | not decided   | in asking_: a thread of the space appends it
//   appended           | -             | being looked at by the thread that asked
//   there              | not decided   | in waiting_, with watches on what is in its way
//   there              | granted       | a Hold's record
//   removed            | any           | gone: released, cancelled, or somebody removed it (lost)
//
// Past its deadline a ticket is as good as removed, in every call; the first to meet it removes it.
//
// Invariants
//   1. A ticket is granted on one look that contains its own entry and its session's.
//   2. Nothing is removed but by its owner, or because its session is dead or its deadline passed,
//      guarded on the entry as it was when that was seen.
//   3. How a wait ends is decided once (Waiter::decide), by a grant, a cancellation or the end of
//      the space.
//   4. No lock is held during an apply, a watch being made or taken back, or a waiter being told.
//
// A caller that must not wait for a server (Caller) has its request made by a thread of the space's
// own (request_threads.hpp): those of one thread of the program in the order in which it made them.
// What such a caller gave up is removed when the store has answered.
//
// Looks after a wait happen on the store's thread, in notices. A coroutine without an executor is
// resumed on a thread of the space's own, so that it may ask again without waiting for itself.
// Deadlines of holds are counted down by another (timers.hpp), which never waits for the store, and
// each lost() fires on one of its own.
//
// The end: open --- close(), or the last Hold after it ---> ending, on a thread (endings.hpp): all
// threads of the space are joined and its session is removed ---> ended. Memory goes with the last
// Locker. Whoever closes waits for the end, up to `ending_limit`.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "base/annotations.hpp"
#include "base/fork.hpp"
#include "base/mutex.hpp"
#include "base/thread_group.hpp"
#include "space/owners.hpp"
#include "space/stored/conflict_query.hpp"
#include "space/stored/keys.hpp"
#include "space/stored/request_threads.hpp"
#include "space/stored/row.hpp"
#include "space/stored/rows.hpp"
#include "space/stored/runner.hpp"
#include "space/stored/tickets.hpp"
#include "space/stored/timers.hpp"
#include "tenure/detail/backend.hpp"
#include "tenure/rule.hpp"
#include "tenure/store.hpp"

namespace tenure::stored {

// A ticket of this process's.
struct Record {
  Row row;           // As it was appended or downgraded; the deadline as it was last seen here.
  Revision written;  // By which its deadline was.
  Token number;
  // What a downgrade wrote, while nobody could read whether that was made.
  std::optional<Row> perhaps;
  detail::Waiter* waiter = nullptr;
  bool only_try = false;         // It does not stand in line: granted at once, or not there.
  std::shared_ptr<Record> held;  // Itself, while a Hold has it.
  bool adopted = false;          // It was there before its wait, and stays when that ends;
  std::optional<ConflictQuery::Found> found;  // and what its append found, where that is known.
  // Guarded by the space's mutex:
  std::uint64_t round = 0;                      // Counts the times that it began to watch.
  std::vector<std::unique_ptr<Watch>> watches;  // Of the last round.
  std::optional<std::stop_source> lost;         // Once somebody asked for it.
  bool is_lost = false;                         // The holder was told, or is being.
  std::optional<Instant> deadline;              // The newest that was seen,
  Revision seen_at;                             // and the revision that wrote it.
  bool evicted = false;                         // A row that said so was seen.
  bool moving = false;                          // A downgrade takes it from one key to another.

  [[nodiscard]] std::string first_key() const { return row_key(row.claims.front(), number); }
};

class StoredSpace final : public detail::Backend {
 public:
  StoredSpace(std::shared_ptr<Store> store, const SessionOptions& options);
  StoredSpace(const StoredSpace&) = delete;
  StoredSpace& operator=(const StoredSpace&) = delete;

  detail::Grant request_free(const Claim& /*claim*/, const detail::OwnerRef& /*owner*/) override {
    return {};  // Every request is an apply: there is no quicker one.
  }
  bool request(const detail::Ask& ask, detail::Waiter& waiter) override;
  bool try_request(const detail::Ask& ask, detail::Grant& grant) override;
  bool try_in_background(const detail::Ask& ask, detail::Waiter& waiter) override;
  void withdraw(detail::Waiter& waiter) noexcept override;
  bool release(const detail::Grant& grant) override;
  void drop(const detail::Grant& grant) noexcept override;
  void release_then(const detail::Grant& grant, Released done) noexcept override;
  void downgrade(detail::Grant& grant, std::span<const Claim> claims) override;
  bool renew(detail::Grant& grant) override;
  [[nodiscard]] std::optional<Instant> deadline(const detail::Grant& grant) override;
  [[nodiscard]] std::vector<Guard> guard(const detail::Grant& grant) override;
  [[nodiscard]] std::stop_token lost(const detail::Grant& grant) override;
  [[nodiscard]] std::vector<TicketInfo> inspect(const Path& path) override;
  [[nodiscard]] std::optional<bool> attach(Token token, const Path& path,
                                           detail::Waiter& waiter) override;
  void detach(const detail::Grant& grant) override;
  bool evict(Token token, bool at_once) override;
  [[nodiscard]] detail::OwnerRef owner(const Owner& owner) override;
  [[nodiscard]] detail::OwnerRef on_terms(const detail::OwnerRef& owner,
                                          const detail::Terms& terms) override;
  [[nodiscard]] int descriptor() const noexcept override {
    return closed_.load(std::memory_order_acquire) ? -1 : session_->descriptor();
  }
  void close() noexcept override;
  void abandon() noexcept override;

  // For rooms above that write tickets in transactions of their own (tickets.hpp).
  [[nodiscard]] Store& store() const noexcept { return *store_; }
  [[nodiscard]] Tickets tickets() noexcept { return {*store_, hints_}; }
  // A row with a new request number, and everything else but claims and anchor as it has to be.
  [[nodiscard]] Row new_row();
  // As request(), for a ticket that is there already. The wait does not look back first where the
  // caller knows what its append found, at the revision that is the ticket's number. A wait that is
  // cancelled, or ends with the space, leaves the ticket as it is.
  bool attach(Row row, Token number, std::optional<ConflictQuery::Found> found,
              detail::Waiter& waiter);
  // The tickets of an owner and those that they wait for, as they were during the call. The rest of
  // the space is not read, so only `granted` and, of the owner's own, `blocked_by` and `position`
  // are those of the whole.
  [[nodiscard]] std::vector<TicketInfo> inspect_waits(const Owner& owner);
  // Removes this ticket, which was just appended, and throws Deadlock if its wait closes a circle.
  void refuse_deadlock(const Row& row, Token number);

 private:
  using RecordRef = std::shared_ptr<Record>;
  using Watches = std::vector<std::unique_ptr<Watch>>;
  enum class Verdict : std::uint8_t { granted, waiting, gone, anchor_lost };
  using View = Tickets::View;

  ~StoredSpace() override;

  // Asking: stored_space.cpp.
  [[nodiscard]] RecordRef new_record(const detail::Ask& ask);
  bool ask(const RecordRef& record, detail::Waiter& waiter);
  bool ask_somewhere(const RecordRef& record, detail::Waiter& waiter);
  [[nodiscard]] View first_view(Record& record);
  [[noreturn]] static void throw_waited_for(const Record& record);
  void ask_in_background(const RecordRef& record, detail::Waiter& waiter);
  void ask_for_waiter(const RecordRef& record) noexcept;
  bool is_asked(const RecordRef& record) noexcept;
  enum class Queued : std::uint8_t { queued, unwanted, twice };
  [[nodiscard]] Queued queue_asked(const RecordRef& record) noexcept;
  void end_asked(const RecordRef& record, detail::WaitOutcome outcome,
                 std::exception_ptr error = nullptr) noexcept;
  bool hold_tried(const RecordRef& record);
  [[nodiscard]] std::vector<detail::Waiter*> take_all_asking() noexcept;
  View append(Record& record);
  // The ticket of an earlier request with the same id, if there is one.
  bool adopt_request(Record& record);
  bool wait_in_line(const RecordRef& record, View view);
  bool clear_away_any(const ConflictQuery::Found& found, std::span<const Claim> claims,
                      Token number, std::vector<WatchFor>& otherwise);
  void start_own_deadline(Record& record);
  bool guard_cycle(std::span<const Wait> cycle, const std::map<Token, Seen>& live, Txn& txn);
  // Removes the ticket, now or as soon as the store can be written, and leaves.
  enum class Try : std::uint8_t { appended, taken, again };
  [[nodiscard]] Try try_append(Record& record, ConflictQuery::Extent& extent);
  [[nodiscard]] bool try_append(Record& record);
  void give_up(const RecordRef& record) noexcept;
  // Of an append whose outcome is not known; if so, its number is known now.
  bool was_taken(Record& record) noexcept;
  View look_at_own(const Record& record);
  void remove_stray(const Row& row);

  // Waiting: stored_wait.cpp.
  Verdict try_grant(const RecordRef& record) {
    return try_grant(record, tickets().look_back(record->row, record->number));
  }
  Verdict try_grant(const RecordRef& record, View view);
  bool clear_away(const Entry& blocker, std::vector<WatchFor>& otherwise);
  bool clear_away_crowd(const Claim& claim, Token number, std::vector<WatchFor>& otherwise);
  [[nodiscard]] std::optional<Instant> deadline_of(Seen& ticket);
  void watch_for(const RecordRef& record, std::vector<WatchFor> what);
  void look_again_soon(const RecordRef& record) noexcept;
  void on_notice(std::uint64_t number) noexcept;
  // Whoever gets the waiter decides how the wait ends; nobody else touches it after that.
  [[nodiscard]] detail::Waiter* take(const RecordRef& record) noexcept;
  void tell(detail::Waiter& waiter, detail::WaitOutcome outcome) noexcept;
  void end_wait(const RecordRef& record, detail::WaitOutcome outcome,
                std::exception_ptr error = {}) noexcept;
  void end_lost_wait(const RecordRef& record) noexcept;

  // Other people's tickets: stored_inspect.cpp.
  struct Snapshot {
    std::vector<Seen> tickets;
    std::vector<Unreadable> unreadable;
    std::vector<Entry> sessions;
  };
  [[nodiscard]] Snapshot snapshot();
  [[nodiscard]] static std::vector<TicketInfo> describe(const Snapshot& all);
  void remove_dead(Snapshot& all);
  void remove_overdue(Snapshot& all);
  [[nodiscard]] static std::vector<Guard> waits(const Snapshot& all, const Seen& ticket);
  void sweep(std::span<const Entry> sessions);
  void sweep_dead() noexcept;

  // Leaving: stored_leave.cpp.
  [[nodiscard]] static Txn removal(const Record& record);
  // The same, of a row that nobody else has written since it was last seen here.
  [[nodiscard]] Txn removal_as_seen(const Record& record);
  bool remove_held(const RecordRef& record);
  [[nodiscard]] static Txn own_row(const Record& record);
  bool saw_rows(const RecordRef& record, const Outcome& own);
  void remove_changed(const RecordRef& record, const Released& done) noexcept;
  void remove_all(std::span<const RecordRef> records) noexcept;
  [[nodiscard]] RecordRef take_back(const detail::Grant& grant) noexcept;
  void post_removal(const Record& record) noexcept;
  void post(Txn txn, Store::Posted then) noexcept;
  class Moving;
  bool narrow(const RecordRef& record, std::span<const Claim> claims);
  bool resolve_downgrade(const RecordRef& record);
  // What a lost session left, others remove: `anchored` is what they would not.
  void retry_later(Txn txn, bool anchored) noexcept;
  void start_retrying() noexcept;
  void retry() noexcept;
  bool retry_one();  // False: there is nothing left.
  void arm_retry() noexcept;

  // The hold's own fate: stored_hold.cpp.
  void hold(const RecordRef& record) noexcept;
  void saw_row(const RecordRef& record, const Row& row, Revision written);
  // Past its deadline, or evicted, as far as was seen.
  [[nodiscard]] bool is_over(const Record& record);
  [[nodiscard]] bool is_over_or_evicted(const Record& record);
  // When the holder is told; nothing: at no time that is known.
  [[nodiscard]] std::optional<Instant> tell_at(const Record& record);
  [[nodiscard]] bool is_due(const Record& record);
  void count_down(const RecordRef& record) noexcept;
  void watch_hold(const RecordRef& record) noexcept;
  [[nodiscard]] WatchFor look_at_hold(const RecordRef& record, bool& is_lost);
  void arm_hold(const RecordRef& record, WatchFor what, std::uint64_t round) noexcept;
  void fire_lost(const RecordRef& record) noexcept;
  void on_session_lost() noexcept;

  // The Space, each record, each call and each post under way use it; the last to leave ends it.
  void enter() noexcept { users_.fetch_add(1, std::memory_order_relaxed); }
  void leave() noexcept;
  void end() noexcept;
  void retry_before_end() noexcept;
  void await_end() noexcept;
  void disown() noexcept;  // The last owner deletes it.
  class Departure;         // Of a hold: the last one of a closed space waits for its end.
  // While one exists this thread runs a notice or the end of a post: it is in the store's hands.
  class InStore {
   public:
    InStore() noexcept { ++depth; }
    InStore(const InStore&) = delete;
    InStore& operator=(const InStore&) = delete;
    ~InStore() { --depth; }
    [[nodiscard]] static bool here() noexcept { return depth > 0; }

   private:
    static thread_local int depth;
  };
  // While one exists this thread is one that the end of the space waits for.
  class Working {
   public:
    explicit Working(const StoredSpace* space) noexcept : before_(std::exchange(current, space)) {}
    Working(const Working&) = delete;
    Working& operator=(const Working&) = delete;
    ~Working() { current = before_; }
    [[nodiscard]] static bool here(const StoredSpace* space) noexcept { return current == space; }

   private:
    static thread_local const StoredSpace* current;
    const StoredSpace* const before_;
  };
  class Stay {
   public:
    explicit Stay(StoredSpace& space) noexcept : space_(space) { space_.enter(); }
    Stay(const Stay&) = delete;
    Stay& operator=(const Stay&) = delete;
    ~Stay() { space_.leave(); }

   private:
    StoredSpace& space_;
  };
  void check_open() const;
  void check_open_for_hold() const;
  [[nodiscard]] bool forked() const noexcept { return base::forked_since(fork_generation_); }

  std::shared_ptr<Store> store_;      // Until the end,
  std::unique_ptr<Session> session_;  // and this.
  const std::uint64_t fork_generation_;
  std::atomic<std::uint64_t> requests_ = 0;
  std::atomic<std::size_t> users_ = 1;   // The Space, each record, each post that is under way.
  std::atomic<std::size_t> owners_ = 2;  // Of the memory: Lockers, and the end.
  std::atomic<bool> closed_ = false;
  std::atomic<bool> ending_ = false;
  Hints hints_;

  base::Mutex mutex_;
  std::condition_variable_any changed_;  // holds_, posts_, ended_.
  std::size_t holds_ TENURE_GUARDED_BY(mutex_) = 0;
  std::size_t posts_ TENURE_GUARDED_BY(mutex_) = 0;
  bool ended_ TENURE_GUARDED_BY(mutex_) = false;
  bool given_up_ TENURE_GUARDED_BY(mutex_) = false;  // Whoever closed it did not see its end.
  std::map<std::uint64_t, RecordRef> waiting_ TENURE_GUARDED_BY(mutex_);
  // Requests that a thread of the space makes, until the store has answered.
  std::map<const detail::Waiter*, RecordRef> asking_ TENURE_GUARDED_BY(mutex_);
  std::vector<std::weak_ptr<Record>> watched_holds_ TENURE_GUARDED_BY(mutex_);
  bool swept_once_ TENURE_GUARDED_BY(mutex_) = false;
  std::vector<std::string> dead_ TENURE_GUARDED_BY(mutex_);  // Sessions to be swept.
  struct Retry {
    Txn txn;
    bool anchored;
  };
  std::vector<Retry> retries_ TENURE_GUARDED_BY(mutex_);
  std::vector<Row> strays_ TENURE_GUARDED_BY(mutex_);  // Tickets that may be there.
  bool retrying_ TENURE_GUARDED_BY(mutex_) = false;
  std::uint64_t retry_round_ TENURE_GUARDED_BY(mutex_) = 0;  // Counts the times it was armed.
  std::unique_ptr<Watch> retry_watch_ TENURE_GUARDED_BY(mutex_);

  // Threads: the end joins them.
  std::unique_ptr<RequestThreads> request_threads_ = std::make_unique<RequestThreads>();
  std::unique_ptr<Runner> runner_ = std::make_unique<Runner>();
  std::unique_ptr<base::ThreadGroup> callers_ =
      std::make_unique<base::ThreadGroup>();  // Of lost().
  std::unique_ptr<Timers> timers_;
  std::optional<std::stop_callback<std::function<void()>>> on_lost_;  // May run at once.
};

}  // namespace tenure::stored
