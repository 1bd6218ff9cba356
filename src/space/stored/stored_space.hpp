// stored_space.hpp: the space in a store: for every process, and every machine, that reaches it.
//
// It is the front of these parts:
//
//   Lifetime   users of the space, and its end      Requests   how a request becomes a ticket
//   Waits      requests that are not granted yet    Blockers   what blocks a ticket
//   Holds      granted tickets                      Retries    removals that failed
//   Inspection all tickets; evicting                Sweeper    what dead sessions left
//
//   a ticket's entries | its waiter    | where its record is
//   -------------------+---------------+------------------------------------------------------
//   perhaps there      | not decided   | Waits: a thread of the space makes the request
//   there              | not decided   | Waits, with watches on what blocks it
//   there              | granted       | Holds
//   removed            | any           | nowhere: released, cancelled, or removed by others (lost)
//
// No grant is written: a process that can read the tickets can tell which are granted. Past its
// deadline a ticket counts as removed in every call; the first process that meets it removes it.
//
// Invariants
//   1. A ticket is granted after one read that contains its own entry and its anchor's.
//   2. A ticket is removed only by its own process, or because its anchor is gone or its deadline
//      has passed, guarded on the entry as it was when that was read; or by an operator.
//   3. The outcome of a wait is decided once (Waiter::decide).
//   4. No lock is held during an apply, while a watch is made or destroyed, or while a waiter is
//      notified.
//
// The end: the last user of a closed space starts it, on a thread of its own (lifetime.hpp). All
// threads of the space are joined, and its session is removed. A thread that calls close() waits
// for the end, for at most `ending_limit`.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <vector>

#include "space/owners.hpp"
#include "space/stored/blockers.hpp"
#include "space/stored/deadlock.hpp"
#include "space/stored/holds.hpp"
#include "space/stored/inspection.hpp"
#include "space/stored/lifetime.hpp"
#include "space/stored/requests.hpp"
#include "space/stored/retries.hpp"
#include "space/stored/sweeper.hpp"
#include "space/stored/tickets.hpp"
#include "space/stored/waits.hpp"
#include "tenure/detail/backend.hpp"
#include "tenure/store.hpp"

namespace tenure::stored {

class StoredSpace final : public detail::Backend {
 public:
  // `front`: lives at least as long as this.
  StoredSpace(std::shared_ptr<Store> store, const SessionOptions& options,
              std::shared_ptr<void> front = nullptr);
  StoredSpace(const StoredSpace&) = delete;
  StoredSpace& operator=(const StoredSpace&) = delete;

  detail::Grant request_free(const Claim& /*claim*/, const detail::OwnerRef& /*owner*/) override {
    return {};  // Every request is an apply: there is no quicker one.
  }
  bool request(const detail::Ask& ask, detail::Waiter& waiter) override {
    return request(ask, waiter, nullptr);
  }
  bool try_request(const detail::Ask& ask, detail::Grant& grant) override {
    return try_request(ask, grant, nullptr);
  }
  bool try_in_background(const detail::Ask& ask, detail::Waiter& waiter) override {
    return try_in_background(ask, waiter, nullptr);
  }
  [[nodiscard]] bool available(const detail::Ask& ask) override { return available(ask, nullptr); }
  // The same through a gate, for a space over several of these: they throw ShardsChanged as well.
  bool request(const detail::Ask& ask, detail::Waiter& waiter, const GateRef& gate);
  bool try_request(const detail::Ask& ask, detail::Grant& grant, const GateRef& gate);
  bool try_in_background(const detail::Ask& ask, detail::Waiter& waiter, const GateRef& gate);
  [[nodiscard]] bool available(const detail::Ask& ask, const GateRef& gate);
  // The space that gave the grant, or that has the request of a waiter.
  [[nodiscard]] static StoredSpace& of(const detail::Grant& grant) noexcept {
    return *static_cast<Record*>(grant.ticket)->space;
  }
  // Whether requests can still be made: it is open, and its session is not lost.
  [[nodiscard]] bool usable() noexcept;
  void withdraw(detail::Waiter& waiter) noexcept override;
  bool release(const detail::Grant& grant) override;
  void drop(const detail::Grant& grant) noexcept override;
  void release_then(const detail::Grant& grant, Released done) noexcept override;
  void downgrade(detail::Grant& grant, std::span<const Claim> claims) override;
  bool release_with(const detail::Grant& grant, const TxnPart& part) override;
  void release_with_then(const detail::Grant& grant, TxnPart part, Released done) noexcept override;
  void downgrade_with(detail::Grant& grant, std::span<const Claim> claims,
                      const TxnPart& part) override;
  bool renew(detail::Grant& grant, std::chrono::nanoseconds max_hold) override;
  [[nodiscard]] std::vector<Claim> claims(const detail::Grant& grant) override;
  [[nodiscard]] std::optional<Instant> deadline(const detail::Grant& grant) override;
  [[nodiscard]] std::vector<Guard> guard(const detail::Grant& grant) override;
  [[nodiscard]] std::stop_token lost(const detail::Grant& grant) override;
  [[nodiscard]] std::stop_token asked_to_leave(const detail::Grant& grant) override;
  [[nodiscard]] std::stop_token session_lost() override;
  [[nodiscard]] std::vector<TicketInfo> inspect(const Path& path) override;
  [[nodiscard]] std::optional<bool> attach(Token token, const Path& path,
                                           detail::Waiter& waiter) override;
  void detach(const detail::Grant& grant) override;
  [[nodiscard]] std::unique_ptr<detail::TicketWatch> watch(const Path& path,
                                                           std::function<void()> changed) override;
  bool evict(Token token, bool at_once) override;
  std::size_t evict_below(const Path& path, bool at_once) override;
  bool ask_to_leave(Token token) override;
  std::size_t set_limit(const Claim& limit) override;
  [[nodiscard]] detail::OwnerRef owner(const Owner& owner) override { return new_owner(owner); }
  [[nodiscard]] detail::OwnerRef on_terms(const detail::OwnerRef& owner,
                                          const detail::Terms& terms) override {
    return new_terms(owner, terms);
  }
  // The same of all stored spaces.
  [[nodiscard]] static detail::OwnerRef new_owner(const Owner& owner);
  [[nodiscard]] static detail::OwnerRef new_terms(const detail::OwnerRef& owner,
                                                  const detail::Terms& terms);
  [[nodiscard]] int descriptor() const noexcept override {
    return life_.closed() ? -1 : session_->descriptor();
  }
  void close() noexcept override;
  void abandon() noexcept override;

  // For rooms above that write tickets in transactions of their own (tickets.hpp).
  [[nodiscard]] Store& store() const noexcept { return *store_; }
  [[nodiscard]] Tickets tickets() noexcept { return {*store_, hints_}; }
  // A row with a new request number; the caller adds claims and anchor.
  [[nodiscard]] Row new_row() { return requests_.new_row(); }
  // As request(), for a ticket that is in the store already. `found`: what its append found, at the
  // revision that is the ticket's number; null: read the conflicts first. A wait that is cancelled,
  // or ends with the space, leaves the ticket as it is.
  bool attach(Row row, Token number, std::optional<ConflictQuery::Found> found,
              detail::Waiter& waiter);
  // The tickets of an owner and those that they wait for, as they were during the call. The rest of
  // the space is not read, so only `granted` and, of the owner's own tickets, `blocked_by` and
  // `position` are those of the whole space.
  [[nodiscard]] std::vector<TicketInfo> inspect_waits(const Owner& owner);
  // Removes this ticket, which was just appended, and throws Deadlock if its wait closes a cycle.
  void refuse_deadlock(const Row& row, Token number) {
    stored::refuse_deadlock(*store_, tickets(), row, number);
  }

 private:
  using Stay = Lifetime::Stay;
  [[nodiscard]] RecordRef new_record(const detail::Ask& ask, const GateRef& gate);

  ~StoredSpace() override;
  void end() noexcept;
  void on_session_lost() noexcept;

  const std::shared_ptr<void> front_;
  std::shared_ptr<Store> store_;      // Until the end,
  std::unique_ptr<Session> session_;  // and this.
  Hints hints_;
  Lifetime life_;
  Retries retries_;
  Sweeper sweeper_;
  Blockers blockers_;
  Holds holds_;
  Requests requests_;
  Waits waits_;
  Inspection inspection_;
  std::stop_source lost_;                                             // Of session_lost().
  std::optional<std::stop_callback<std::function<void()>>> on_lost_;  // May run at once.
};

}  // namespace tenure::stored
