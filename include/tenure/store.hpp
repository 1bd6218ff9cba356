// store.hpp: the one primitive that everything durable stands on: ordered keys, an atomic apply, a
// watch, a session, a clock.
//
//   auto store = tenure::store("sqlite:app.db");
//   Txn txn;
//   txn.guards.push_back(Guard::absent("greeting"));
//   txn.writes.push_back(Write::put("greeting", "hello"));
//   txn.reads.push_back(Range::prefix("gr"));
//   Outcome outcome = store->apply(txn);
//
// Keys and values are bytes. Keys that begin with a byte below 0x20 are Tenure's own
// (detail/reserved_keys.hpp); all others are yours, and Hold::guard() puts the lock's own condition
// into your transaction.
//
// Invariants, of every store (src/store/conformance.hpp tests them)
//   1. An apply is one atomic step: all guards are judged, all writes made, all reads taken at one
//      moment. Reads see the writes. Where a guard fails nothing is written, and the reads are
//      taken all the same.
//   2. Every apply that commits writes has a revision of its own, larger than any before it, power
//      loss included. No revision is ever given twice.
//   3. A watch never misses: what happens after `after` is told, though perhaps more than once or
//      for no reason.
//   4. A session that is dead stays dead.
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

// What the store's clock shows. It runs evenly while the store lives, whatever is done to the
// machine's wall clock, and was near wall time when the store's epoch began.
using Instant = std::chrono::sys_time<std::chrono::nanoseconds>;

struct Revision {
  std::uint64_t value = 0;  // Zero: before everything.
  friend constexpr auto operator<=>(const Revision&, const Revision&) = default;
};
// In Range::before: the revision of the apply that the range is read in; all stamps are before it
// when that wrote nothing.
inline constexpr Revision this_apply{std::numeric_limits<std::uint64_t>::max()};

struct Entry {
  std::string key;
  std::string value;
  Revision created;  // By the apply that made the key,
  Revision changed;  // and by the one that last put a value; they begin equal.
  friend bool operator==(const Entry&, const Entry&) = default;
};

// Keys from `from` on, and before `to`.
struct Range {
  std::string from;
  std::string to;           // Empty: to the end.
  std::uint32_t limit = 0;  // At most so many entries; 0: all.
  std::uint32_t skip = 0;   // So many are passed over first.
  bool reverse = false;     // From the last one backwards.
  // Only keys whose stamp_of() is smaller, so a key too short for a stamp always counts; zero: all.
  Revision before{};

  [[nodiscard]] static Range key(std::string key);
  [[nodiscard]] static Range prefix(std::string prefix);
  [[nodiscard]] Range first(std::uint32_t count = 1) const;
  [[nodiscard]] Range last(std::uint32_t count = 1) const;
  [[nodiscard]] bool holds(std::string_view key) const noexcept;
};

// The first key behind all that begin with `prefix`; empty when there is none.
[[nodiscard]] std::string prefix_end(std::string prefix);

struct Guard {
  enum class Kind : std::uint8_t {
    absent,     // There is no such key.
    present,    // There is one.
    unchanged,  // It is there, and was last changed at `revision`.
    quiet,      // Nothing that is in the range now was created or changed after `revision`.
  };
  Kind kind = Kind::absent;
  Range range;  // Limit, skip, direction and `before` are not looked at.
  Revision revision;

  [[nodiscard]] static Guard absent(std::string key);
  [[nodiscard]] static Guard present(std::string key);
  [[nodiscard]] static Guard unchanged(std::string key, Revision revision);
  [[nodiscard]] static Guard quiet(Range range, Revision revision);
  // quiet since ever: the range has nothing in it.
  [[nodiscard]] static Guard empty(Range range) { return quiet(std::move(range), {}); }
};

struct Write {
  enum class Kind : std::uint8_t {
    put,     // Makes the key or changes its value.
    append,  // Makes key + stamp(this apply's revision): a key that no other apply can make. Of
             // two with one prefix in one apply the last stays.
    remove,  // No error when there is none.
  };
  Kind kind = Kind::put;
  std::string key;
  std::string value;

  [[nodiscard]] static Write put(std::string key, std::string value);
  [[nodiscard]] static Write append(std::string prefix, std::string value);
  [[nodiscard]] static Write remove(std::string key);
};

// Eight bytes that sort as the revision does.
inline constexpr std::size_t stamp_size = 8;
[[nodiscard]] std::string stamp(Revision revision);
// The stamp at the end of a key, as a revision; zero of a key that is too short for one.
[[nodiscard]] Revision stamp_of(std::string_view key) noexcept;

enum class Durability : std::uint8_t {
  relaxed,  // Survives the death of any process; after power loss, the last ones may be gone.
  full,     // Survives power loss when apply returns.
};

struct Txn {
  std::vector<Guard> guards;
  std::vector<Write> writes;
  std::vector<Range> reads;
  Durability durability = Durability::relaxed;
};

struct Outcome {
  bool committed = false;                 // Whether all guards held.
  Revision revision;                      // Of this apply, or of the newest one when it wrote none.
  std::vector<std::vector<Entry>> reads;  // One list for each range.
};

// A store could not do what was asked: no space left, no connection, a file that is no store. The
// message says what to do. Nothing was written, unless `unknown`.
class StoreError : public Error {
 public:
  explicit StoreError(const std::string& message, bool outcome_unknown = false)
      : Error(message), unknown_(outcome_unknown) {}
  [[nodiscard]] bool unknown() const noexcept { return unknown_; }

 private:
  bool unknown_;
};

// What a watch waits for: any one of these. A range counts when a key in it was made, changed or
// removed by an apply after `after`.
struct WatchFor {
  // Initializers, so that designated ones may leave members out.
  // NOLINTBEGIN(readability-redundant-member-init)
  std::vector<Range> ranges{};
  Revision after{};
  std::optional<Instant> until{};  // The store's clock reaches this.
  std::string session{};           // This session is dead, or never was. Empty: none.
  // NOLINTEND(readability-redundant-member-init)
};

// Destroying it takes the watch back; when that returns, the notice is not running and will not be
// called, unless it was destroyed by the notice itself.
class Watch {
 public:
  Watch() = default;
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;
  virtual ~Watch() = default;
};

struct SessionOptions {
  std::string label;                      // For people: the command, the service.
  std::chrono::milliseconds ttl{10'000};  // Where sessions are leases; a kernel's lock has none.
};

// What keeps this process's tickets alive. Ends with the object: its entry is removed.
class Session {
 public:
  Session() = default;
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  virtual ~Session() = default;

  [[nodiscard]] virtual const std::string& id() const noexcept = 0;  // 16 hexadecimal digits.
  // It has not been declared dead: its entry is there. That of a dead one is until it is removed.
  [[nodiscard]] virtual Guard guard() const = 0;
  // Stops as soon as the store can't vouch for the session any more.
  [[nodiscard]] virtual std::stop_token lost() const = 0;
  // To be passed to a child process, so that the session outlives this one for as long as the child
  // has it open. -1: this kind of session can't be passed on.
  [[nodiscard]] virtual int descriptor() const noexcept { return -1; }
};

// The entry of a session: session_prefix + id, with host, pid, label and start as JSON.
inline constexpr std::string_view session_prefix = reserved::sessions;

class Store {
 public:
  Store() = default;
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;
  virtual ~Store() = default;

  virtual Outcome apply(const Txn& txn) = 0;
  // The same without waiting: made in order before any later apply of this process. `done` runs
  // once, on any thread, with a null error when it was applied; it must not throw or block. A store
  // that goes makes what was posted first.
  using Posted = std::function<void(const Outcome& outcome, const std::exception_ptr& error)>;
  virtual void post(Txn txn, Posted done) noexcept = 0;

  // For many durable transactions at once: those that wait together share one commit and one sync,
  // and each keeps its own guards, revision and outcome. Made in the order of the calls; `done`
  // runs as that of post(), in the same order, on one thread. No later apply waits for it, and
  // transactions that ask for no sync are delayed by one sync at most.
  virtual void apply_then(Txn txn, Posted done) noexcept;
  // Returns when all that was posted before is decided, their `done`s have returned, and what they
  // committed is durable, relaxed or not. Throws the first error that a `done` was told since the
  // last flush(), if any. Not to be called by a callback of the store.
  virtual void flush();

  // The notice is called at most once, on a thread of the store's, never inside this call, with no
  // lock of the store held; it may apply and watch, and holds up other notices while it runs.
  using Notice = std::function<void()>;
  [[nodiscard]] virtual std::unique_ptr<Watch> watch(WatchFor what, Notice notice) = 0;

  [[nodiscard]] virtual std::unique_ptr<Session> open_session(const SessionOptions& options) = 0;
  // False: it is dead for good, or never was, whatever its entry says.
  [[nodiscard]] virtual bool alive(std::string_view session) = 0;

  // Whether calls wait for another machine, which may not answer for long.
  [[nodiscard]] virtual bool remote() const noexcept { return false; }

  [[nodiscard]] virtual Instant now() = 0;
  // The latest that now() may show at this moment, in any process, as far as this one knows without
  // asking a server: never blocks. A holder counts its own time down by this clock, and others
  // judge the holder by now(), so the holder is never the later of the two.
  [[nodiscard]] virtual Instant latest_now() noexcept = 0;

  // For `tenure doctor`: what it is, where, which version, …
  struct Fact {
    std::string name;
    std::string value;
    friend bool operator==(const Fact&, const Fact&) = default;
  };
  [[nodiscard]] virtual std::vector<Fact> facts() = 0;
};

// "memory:" new, in this process; "sqlite:PATH" for all of this machine; "postgres://…" and
// "etcd://HOST:PORT,…/PREFIX" for all.
// Throws Error for a URL that names none, StoreError where the store can't be opened.
[[nodiscard]] std::shared_ptr<Store> store(std::string_view url);
// Whether a URL is of a kind that store() knows.
[[nodiscard]] bool is_store(std::string_view url) noexcept;
// The URL as it may be told: without passwords.
[[nodiscard]] std::string shown_url(std::string_view url);

// What `tenure doctor --new-epoch` does, after a backup was restored in place or the file beside
// the database was lost: revisions begin above all that were ever given, and what dead sessions
// left is removed. Every process that used the store must have been stopped before. Throws Error
// for a kind of store that needs no such thing.
void repair(std::string_view url);

}  // namespace tenure
