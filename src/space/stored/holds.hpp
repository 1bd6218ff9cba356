// holds.hpp: granted tickets of this process: deadlines, renewal, guards, lost(), downgrade, and
// how they are given back.
//
//   granted --- hold() ---> held --- release, drop, release_then ---> its entries are removed
//                            |'----- detach ---> the entries stay, for another process to find
//                            '------ deadline, eviction, end of the anchor ---> lost() fires
//
// Deadlines are counted down by a thread that never waits for the store (timers.hpp). A release
// that the store cannot take is retried (retries.hpp).
//
// Mutex: each record has its own (record.hpp); mutex_ guards only the list of holds that lost() was
// called for. None is locked during a call of the store, of a timer or of the program.
//
// Thread safety: all calls; those for one grant are made by one thread at a time.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <vector>

#include "base/annotations.hpp"
#include "base/mutex.hpp"
#include "base/thread_group.hpp"
#include "space/stored/lifetime.hpp"
#include "space/stored/record.hpp"
#include "space/stored/retries.hpp"
#include "space/stored/tickets.hpp"
#include "space/timers.hpp"
#include "tenure/detail/backend.hpp"
#include "tenure/store.hpp"

namespace tenure::stored {

class Holds {
 public:
  using Released = detail::Backend::Released;

  Holds(Store& store, Session& session, Hints& hints, Lifetime& life, Retries& retries);
  Holds(const Holds&) = delete;
  Holds& operator=(const Holds&) = delete;
  ~Holds() = default;

  // The record's grant becomes a hold. The record is a user of the space already (Lifetime).
  void hold(const RecordRef& record) noexcept;

  // What Backend declares; the space checks for a forked child.
  bool release(const detail::Grant& grant);
  void drop(const detail::Grant& grant) noexcept;
  void release_then(const detail::Grant& grant, Released done) noexcept;
  void detach(const detail::Grant& grant);
  // `part`: the caller's guards and writes, or null.
  void downgrade(const detail::Grant& grant, std::span<const Claim> claims, const TxnPart* part);
  bool release_with(const detail::Grant& grant, const TxnPart& part);
  bool renew(const detail::Grant& grant, std::chrono::nanoseconds max_hold);
  [[nodiscard]] std::optional<Instant> deadline(const detail::Grant& grant);
  [[nodiscard]] std::vector<Guard> guard(const detail::Grant& grant);
  [[nodiscard]] std::vector<Claim> claims(const detail::Grant& grant);
  [[nodiscard]] std::stop_token lost(const detail::Grant& grant);
  [[nodiscard]] std::stop_token asked_to_leave(const detail::Grant& grant);

  // Removes a ticket that no Hold has, and then leaves the space for it. A server is not waited
  // for. An adopted ticket stays.
  void give_up(const RecordRef& record) noexcept;
  void on_session_lost() noexcept;
  // Requests the stop on a thread of its own: callbacks belong to the program, and may take long.
  void fire(const std::stop_source& source) noexcept;
  // The end of the space.
  void join() noexcept;

 private:
  // While one exists, a notice that finds no entry does not take the hold for lost: a downgrade
  // moves the entry, or a release removes it, before the record says so.
  class Moving {
   public:
    explicit Moving(Record& record) : record_(record) { set(true); }
    Moving(const Moving&) = delete;
    Moving& operator=(const Moving&) = delete;
    ~Moving() { set(false); }

   private:
    void set(bool moving) {
      const base::Mutex::Scoped lock{record_.mutex};
      record_.moving = moving;
    }
    Record& record_;
  };

  [[nodiscard]] static const RecordRef& record_of(const detail::Grant& grant) noexcept {
    return static_cast<Record*>(grant.ticket)->held;
  }

  // Giving back: holds.cpp.
  [[nodiscard]] RecordRef take_back(const detail::Grant& grant) noexcept;
  // removal(), guarded on a row that no other process has written since it was last read here.
  [[nodiscard]] static Txn removal_as_seen(const Record& record);
  bool remove_held(const RecordRef& record);
  bool remove_with(const RecordRef& record, const TxnPart& part);
  void remove_changed(const RecordRef& record, const Released& done) noexcept;
  bool saw_rows(const RecordRef& record, const Outcome& own);
  void post_removal(const Record& record) noexcept;
  void post(Txn txn, Store::Posted then) noexcept;
  void retry_removal(const Record& record) noexcept;

  // Less than before: hold_downgrade.cpp.
  bool narrow(const RecordRef& record, std::span<const Claim> claims, const TxnPart* part);
  bool resolve_downgrade(const RecordRef& record);

  // Deadlines and lost(): hold_fate.cpp.
  void saw_row(const RecordRef& record, const Row& row, Revision written);
  static void saw_limits(const RecordRef& record, const Entry& own);
  [[nodiscard]] bool is_over(const Record& record);
  [[nodiscard]] bool is_over_or_evicted(const Record& record);
  // When lost() must fire; null: at no time that is known.
  [[nodiscard]] static std::optional<Instant> tell_at(const Record& record);
  [[nodiscard]] bool is_due(const Record& record);
  void count_down(const RecordRef& record) noexcept;
  [[nodiscard]] bool begin_watching(const RecordRef& record, WatchFor& what, std::uint64_t& round);
  void watch_hold(const RecordRef& record) noexcept;
  [[nodiscard]] WatchFor look_at_hold(const RecordRef& record, bool& is_lost);
  void arm_hold(const RecordRef& record, WatchFor what, std::uint64_t round) noexcept;
  void fire_lost(const RecordRef& record) noexcept;
  void fire_asked(const RecordRef& record) noexcept;

  Store& store_;
  Session& session_;
  const Tickets tickets_;
  Lifetime& life_;
  Retries& retries_;

  base::Mutex mutex_;
  std::vector<std::weak_ptr<Record>> watched_ TENURE_GUARDED_BY(mutex_);

  std::unique_ptr<base::ThreadGroup> callers_;  // Threads that run callbacks of lost().
  std::unique_ptr<space::Timers> timers_;
};

}  // namespace tenure::stored
