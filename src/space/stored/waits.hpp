// waits.hpp: requests of this process that are not granted yet, and how their waits end.
//
//   asking     a thread of the space makes the request, and the store has not answered
//   waiting    the ticket is in the store, with watches on what blocks it
//   ended      granted, cancelled, evicted, lost, failed, or closed with the space
//
//   request() ──► append ──► free: granted
//                   │ blocked
//                   ▼
//                 try_grant: remove dead blockers, watch the others ──► notice ──► try_grant …
//
// If a caller must not wait for a server (detail::Caller), one of request_threads makes its
// request; requests of one thread of the program keep their order. Later looks happen in notices,
// on threads of the store. A coroutine without an executor is resumed on a thread of the space
// (runner.hpp), so that it may make a request without waiting for itself.
//
// Invariants
//   1. A ticket is granted after one read that contains its own entry and its anchor's.
//   2. The outcome of a wait is decided once (Waiter::decide). The thread that takes a request out
//      of asking_ or waiting_ has decided it, and ends it; no other thread uses the waiter after.
//
// Mutex: it guards asking_ and waiting_. No call of the store, of another part or of the program is
// made with it locked, and no watch is destroyed.
//
// Thread safety: all calls.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "base/annotations.hpp"
#include "base/mutex.hpp"
#include "space/runner.hpp"
#include "space/stored/blockers.hpp"
#include "space/stored/holds.hpp"
#include "space/stored/lifetime.hpp"
#include "space/stored/record.hpp"
#include "space/stored/request_threads.hpp"
#include "space/stored/requests.hpp"
#include "space/stored/retries.hpp"
#include "space/stored/sweeper.hpp"
#include "space/stored/tickets.hpp"
#include "tenure/detail/backend.hpp"
#include "tenure/store.hpp"

namespace tenure::stored {

class Waits {
 public:
  // The other parts of the space.
  struct Parts {
    Store& store;
    Session& session;
    Hints& hints;
    Lifetime& life;
    Retries& retries;
    Holds& holds;
    Requests& requests;
    const Blockers& blockers;
    Sweeper& sweeper;
  };

  explicit Waits(const Parts& parts);
  Waits(const Waits&) = delete;
  Waits& operator=(const Waits&) = delete;
  ~Waits() = default;

  // As Backend::request(), for a record of Requests.
  bool request(const RecordRef& record, detail::Waiter& waiter);
  bool try_request(const RecordRef& record, detail::Grant& grant);
  void try_in_background(const RecordRef& record, detail::Waiter& waiter);
  void withdraw(detail::Waiter& waiter) noexcept;
  // Makes a call that may wait for a server on a thread of the space, and tells how it ended.
  void in_background(std::function<bool()> call, detail::Backend::Released done) noexcept;

  void close() noexcept;  // Ends all waits with `closed`, and removes their tickets.
  void on_session_lost() noexcept;
  void join() noexcept;  // The end of the space.

 private:
  enum class Verdict : std::uint8_t { granted, waiting, gone, anchor_lost };
  enum class Queued : std::uint8_t { queued, unwanted, twice };
  struct Waiting {
    RecordRef record;
    std::uint64_t round = 0;  // Counts the times that it began to watch.
    Watches watches;          // Of the last round.
  };

  // Requests that a thread of the space makes: waits_background.cpp.
  void ask_in_background(const RecordRef& record, detail::Waiter& waiter);
  void ask_for_waiter(const RecordRef& record) noexcept;
  bool is_asked(const RecordRef& record) noexcept;
  [[nodiscard]] Queued queue_asked(const RecordRef& record) noexcept;
  void end_asked(const RecordRef& record, detail::WaitOutcome outcome,
                 std::exception_ptr error = nullptr) noexcept;
  bool hold_tried(const RecordRef& record);
  [[nodiscard]] std::vector<detail::Waiter*> take_all_asking() noexcept;

  // Waiting: waits.cpp.
  [[noreturn]] static void throw_waited_for(const Record& record);
  bool ask(const RecordRef& record, detail::Waiter& waiter);
  bool wait_in_line(const RecordRef& record, Tickets::View view);
  Verdict try_grant(const RecordRef& record, Tickets::View view);
  void watch_for(const RecordRef& record, std::vector<WatchFor> what);
  void on_notice(std::uint64_t number) noexcept;
  void look_again_soon(const RecordRef& record) noexcept;
  [[nodiscard]] Waiting* find(const RecordRef& record) noexcept TENURE_REQUIRES(mutex_);
  // Null: the outcome is decided already.
  [[nodiscard]] detail::Waiter* take(const RecordRef& record) noexcept;
  void tell(detail::Waiter& waiter, detail::WaitOutcome outcome) noexcept;
  void end_wait(const RecordRef& record, detail::WaitOutcome outcome,
                std::exception_ptr error = {}) noexcept;
  void end_lost_wait(const RecordRef& record) noexcept;
  void remove_all(std::span<const RecordRef> records) noexcept;

  Parts parts_;
  const Tickets tickets_;

  base::Mutex mutex_;
  std::map<const detail::Waiter*, RecordRef> asking_ TENURE_GUARDED_BY(mutex_);
  std::map<std::uint64_t, Waiting> waiting_ TENURE_GUARDED_BY(mutex_);  // By ticket number.

  std::unique_ptr<RequestThreads> request_threads_;
  std::unique_ptr<space::Runner> runner_;
};

}  // namespace tenure::stored
