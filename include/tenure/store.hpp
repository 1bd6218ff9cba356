// store.hpp: the primitive that everything durable is built on: ordered keys, an atomic apply, a
// watch, a session, a clock.
//
//   auto store = tenure::store("sqlite:app.db");
//   Txn txn;
//   txn.guards.push_back(Guard::absent("greeting"));
//   txn.writes.push_back(Write::put("greeting", "hello"));
//   txn.reads.push_back(Range::prefix("gr"));
//   Outcome outcome = store->apply(txn);
//
// Keys and values are bytes. Keys that begin with a byte below 0x20 are reserved for Tenure
// (detail/reserved_keys.hpp); all others are yours. Hold::guard() puts the condition "this lock is
// still held" into your transaction.
//
// Invariants of every store (src/store/conformance.hpp tests them)
//   1. An apply is one atomic step: all guards, writes and reads happen at one moment. Reads see
//      the writes. If a guard fails, nothing is written, but the reads are made.
//   2. Every apply that commits writes has its own revision. No revision is used twice, even after
//      power loss.
//   3. Of two applies in one order (below), the later one has the larger revision.
//   4. A watch never misses a change after `after`; it may be notified more than once, or without a
//      reason.
//   5. A dead session stays dead.
//
// Orders. Applies that have nothing to do with each other need not wait for each other, so a store
// may number them independently. The keys of tickets of one root (the first segment of a path) are
// in one order, and those of the path / in the orders of all roots. Every other key is in an order
// of its own, if the store has no larger ones. An apply is in the orders of all that it writes; one
// that writes nothing, of all that it guards and reads. A revision can be compared with other
// revisions of the same key, and be used with all keys that its apply guarded, wrote or read: in
// Guard::unchanged and quiet, in Range::before, in WatchFor::after. It means nothing elsewhere.
// A range over several orders (a whole region of tickets, keys of programs) is in all of them in a
// guard, and in none in a read: the read tells what was there at a moment, which for orders that
// the apply is not in may be an earlier one, and its revision says nothing about the range. A watch
// of such a range begins when watch() returns: watch first, then read.
//
// Thread safety: all calls, from any thread, at once.
#pragma once

#include <chrono>
#include <compare>
#include <cstdint>
#include <exception>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tenure/detail/reserved_keys.hpp"
#include "tenure/error.hpp"

namespace tenure {

// A reading of the store's clock. The clock runs evenly while the store exists, even if the
// machine's wall clock is set, and was near wall time when the store's epoch began.
using Instant = std::chrono::sys_time<std::chrono::nanoseconds>;

struct Revision {
  std::uint64_t value = 0;  // Zero: before everything.
  friend constexpr auto operator<=>(const Revision&, const Revision&) = default;
};
// In Range::before: the revision of the apply that reads the range. If that apply writes nothing,
// every stamp is before it.
inline constexpr Revision this_apply{std::numeric_limits<std::uint64_t>::max()};

struct Entry {
  std::string key;
  std::string value;
  Revision created;  // The apply that created the key,
  Revision changed;  // and the one that last put a value; equal at first.
  friend bool operator==(const Entry&, const Entry&) = default;
};

// The keys k with from <= k < to.
struct Range {
  std::string from;
  std::string to;           // Empty: to the end.
  std::uint32_t limit = 0;  // The maximum number of entries; 0: all.
  std::uint32_t skip = 0;   // How many entries to skip first.
  bool reverse = false;     // Begins with the last entry.
  // Only keys whose stamp_of() is smaller. A key too short for a stamp always counts. Zero: all
  // keys.
  Revision before{};

  [[nodiscard]] static Range key(std::string key);
  [[nodiscard]] static Range prefix(std::string prefix);
  [[nodiscard]] Range first(std::uint32_t count = 1) const;
  [[nodiscard]] Range last(std::uint32_t count = 1) const;
  [[nodiscard]] bool holds(std::string_view key) const noexcept;
};

// The first key after all keys that begin with `prefix`; empty if there is none.
[[nodiscard]] std::string prefix_end(std::string prefix);

struct Guard {
  enum class Kind : std::uint8_t {
    absent,     // There is no such key.
    present,    // There is one.
    unchanged,  // The key exists, and was last changed at `revision`.
    quiet,      // No entry of the range was created or changed after `revision`.
  };
  Kind kind = Kind::absent;
  Range range;  // Limit, skip, direction and `before` are ignored.
  Revision revision;

  [[nodiscard]] static Guard absent(std::string key);
  [[nodiscard]] static Guard present(std::string key);
  [[nodiscard]] static Guard unchanged(std::string key, Revision revision);
  [[nodiscard]] static Guard quiet(Range range, Revision revision);
  // The range is empty.
  [[nodiscard]] static Guard empty(Range range) { return quiet(std::move(range), {}); }
};

struct Write {
  enum class Kind : std::uint8_t {
    put,     // Creates the key or changes its value.
    append,  // Makes key + stamp(this apply's revision): a key that no other apply can make. Of
             // two with one prefix in one apply the last stays.
    remove,  // No error if there is no such key.
  };
  Kind kind = Kind::put;
  std::string key;
  std::string value;

  [[nodiscard]] static Write put(std::string key, std::string value);
  [[nodiscard]] static Write append(std::string prefix, std::string value);
  [[nodiscard]] static Write remove(std::string key);
};

// Eight bytes that sort like the revision.
inline constexpr std::size_t stamp_size = 8;
[[nodiscard]] std::string stamp(Revision revision);
// The stamp at the end of a key, as a revision; zero if the key is too short for one.
[[nodiscard]] Revision stamp_of(std::string_view key) noexcept;

enum class Durability : std::uint8_t {
  relaxed,  // Survives the death of any process. Power loss may undo the last ones.
  full,     // Survives power loss when apply returns.
};

struct Txn {
  std::vector<Guard> guards;
  std::vector<Write> writes;
  std::vector<Range> reads;
  Durability durability = Durability::relaxed;
};

// What a caller adds to the transaction of a request, a release or a downgrade (Locker::with_txn,
// Hold::release, Hold::downgrade): all of it happens in one atomic step, or nothing does.
struct TxnPart {
  std::vector<Guard> guards;  // At most max_part.
  std::vector<Write> writes;  // At most max_part, of keys that Tenure does not use itself.
  Durability durability = Durability::relaxed;
  static constexpr std::size_t max_part = 32;
};

struct Outcome {
  bool committed = false;  // Whether all guards held.
  // Of this apply. If it wrote nothing, that of the newest apply in its order. If it is in several
  // orders, one that is right in guards and watches of what was read, and says nothing elsewhere.
  Revision revision;
  std::vector<std::vector<Entry>> reads;  // One list per range.
};

// A store could not do what was asked: no space left, no connection, a file that is not a store.
// The message says what to do. Nothing was written, unless unknown() is true.
class StoreError : public Error {
 public:
  explicit StoreError(const std::string& message, bool outcome_unknown = false)
      : Error(message), unknown_(outcome_unknown) {}
  [[nodiscard]] bool unknown() const noexcept { return unknown_; }

 private:
  bool unknown_;
};

// What a watch waits for: any one of these. A range is due when an apply after `after` created,
// changed or removed a key in it.
struct WatchFor {
  // Initializers, so that designated ones may leave members out.
  // NOLINTBEGIN(readability-redundant-member-init)
  std::vector<Range> ranges{};
  Revision after{};
  std::optional<Instant> until{};  // The store's clock reaches this.
  std::string session{};           // This session is dead, or never existed. Empty: none.
  // NOLINTEND(readability-redundant-member-init)
};

// Destroying it cancels the watch. When the destructor returns, the notice is not running and will
// not be called, unless the notice itself destroyed the watch.
class Watch {
 public:
  Watch() = default;
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;
  virtual ~Watch() = default;
};

struct SessionOptions {
  std::string label;                      // For people: the command, the service.
  std::chrono::milliseconds ttl{10'000};  // For stores whose sessions are leases.
};

// Keeps this process's tickets alive. The session ends with the object, and its entry is removed.
class Session {
 public:
  Session() = default;
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  virtual ~Session() = default;

  [[nodiscard]] virtual const std::string& id() const noexcept = 0;  // 16 hexadecimal digits.
  // Holds as long as the session's entry exists. The entry of a dead session exists until some
  // process removes it.
  [[nodiscard]] virtual Guard guard() const = 0;
  // Stopped as soon as the store can't vouch for the session any more.
  [[nodiscard]] virtual std::stop_token lost() const = 0;
  // A descriptor to pass to a child process, so that the session lives on as long as the child has
  // it open. -1: this kind of session can't be passed on.
  [[nodiscard]] virtual int descriptor() const noexcept { return -1; }
};

// The entry of a session: session_prefix + id, with host, pid, label and start as JSON.
inline constexpr std::string_view session_prefix = reserved::sessions;

// A transaction with its callback, in one object: for callers that make very many.
class Deferred {
 public:
  Deferred() = default;
  Deferred(const Deferred&) = delete;
  Deferred& operator=(const Deferred&) = delete;
  virtual ~Deferred() = default;

  Txn txn;  // The store's from apply_later() on, which may move from it.
  // Set when done() is called.
  Outcome outcome;
  std::exception_ptr error;
  // Called as the callback of Store::apply_then() is. `self` is this object: keep it to use it
  // again, or drop it.
  virtual void done(std::shared_ptr<Deferred> self) noexcept = 0;
};

class Store {
 public:
  Store() = default;
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;
  virtual ~Store() = default;

  virtual Outcome apply(const Txn& txn) = 0;
  // Applies without waiting, in order, before any later apply of this process. `done` is called
  // once, on any thread; the error is null if the transaction was applied. It must not throw or
  // block. A store that is destroyed first applies what was posted.
  using Posted = std::function<void(const Outcome& outcome, const std::exception_ptr& error)>;
  virtual void post(Txn txn, Posted done) noexcept = 0;

  // For many durable transactions at once: those that wait together share one commit and one sync,
  // and each keeps its own guards, revision and outcome. Applied in the order of the calls; `done`
  // is called as for post(), in the same order, on one thread. Later applies do not wait for it,
  // and relaxed transactions are delayed by at most one sync.
  virtual void apply_then(Txn txn, Posted done) noexcept;
  // The same, in one queue with it.
  virtual void apply_later(std::shared_ptr<Deferred> what) noexcept;
  // Returns when everything that was posted before is decided, the callbacks have returned, and all
  // commits are durable, relaxed ones too. Throws the first error that a callback received since
  // the last flush(), if any. Must not be called by a callback of the store.
  virtual void flush();

  // The notice is called at most once, on a thread of the store, never inside this call, with no
  // lock of the store held. It may apply and watch; other notices wait while it runs.
  using Notice = std::function<void()>;
  [[nodiscard]] virtual std::unique_ptr<Watch> watch(WatchFor what, Notice notice) = 0;

  [[nodiscard]] virtual std::unique_ptr<Session> open_session(const SessionOptions& options) = 0;
  // False: the session is dead for good, or never existed, whatever its entry says.
  [[nodiscard]] virtual bool alive(std::string_view session) = 0;

  // Whether calls wait for another machine, which may not answer for a long time.
  [[nodiscard]] virtual bool remote() const noexcept { return false; }

  [[nodiscard]] virtual Instant now() = 0;
  // The latest value that now() may return at this moment in any process, as far as this process
  // knows without asking a server. Never blocks. A holder counts its own time down by this clock,
  // and other processes judge the holder by now(), so a holder never believes longer than the
  // others that it holds.
  [[nodiscard]] virtual Instant latest_now() noexcept = 0;

  // For `tenure doctor`: the kind of store, its location, its version, …
  struct Fact {
    std::string name;
    std::string value;
    friend bool operator==(const Fact&, const Fact&) = default;
  };
  [[nodiscard]] virtual std::vector<Fact> facts() = 0;
};

// "memory:": a new store in this process. "sqlite:PATH": for all processes of this machine.
// "postgres://…" and "etcd://HOST:PORT,…/PREFIX": for all machines.
// Throws Error for a URL of another kind, StoreError if the store can't be opened.
[[nodiscard]] std::shared_ptr<Store> store(std::string_view url);
// Whether store() knows URLs of this kind.
[[nodiscard]] bool is_store(std::string_view url) noexcept;
// The URL without passwords, for messages.
[[nodiscard]] std::string shown_url(std::string_view url);

// What `tenure doctor --new-epoch` does after a backup was restored in place, or the file beside
// the database was lost: revisions begin above all that were ever used, and the entries of dead
// sessions are removed. Every process that used the store must have been stopped. Throws Error for
// a kind of store that needs no repair.
void repair(std::string_view url);

}  // namespace tenure
