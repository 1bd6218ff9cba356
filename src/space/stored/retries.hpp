// retries.hpp: removals that the store could not take, retried until it can.
//
// A removal must not be lost: a ticket that no process knows of would block others for as long as
// this process lives. Every 100 ms a notice of the store retries what is left, in order. When the
// session is lost, other processes remove its tickets, so only anchored ones are still retried.
//
// Mutex: it guards the lists and the watch. No call of the store is made with it locked.
//
// Thread safety: all calls. stop() and finish() are for the end of the space.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/annotations.hpp"
#include "base/mutex.hpp"
#include "space/stored/row.hpp"
#include "space/stored/tickets.hpp"
#include "tenure/store.hpp"

namespace tenure::stored {

class Retries {
 public:
  Retries(Store& store, Session& session, Hints& hints) noexcept
      : store_(store), session_(session), tickets_(store, hints) {}
  Retries(const Retries&) = delete;
  Retries& operator=(const Retries&) = delete;
  ~Retries() = default;

  // `anchored`: it removes a ticket that outlives this session.
  void apply_later(Txn txn, bool anchored) noexcept;
  // The row of an append whose outcome is unknown: its ticket is removed if it is found.
  void remove_stray(const Row& row) noexcept;

  // No retry runs after this, or begins.
  void stop() noexcept;
  // Retries what is left, for at most `limit`. The rest ends with the session, or with its anchor.
  void finish(std::chrono::nanoseconds limit) noexcept;

 private:
  struct Retry {
    Txn txn;
    bool anchored;
  };
  void start() noexcept;
  void arm() noexcept;
  void retry() noexcept;
  bool retry_one();  // False: there is nothing left.
  void find_stray(const Row& row);
  [[nodiscard]] bool drop_session_tickets() noexcept;
  [[nodiscard]] bool worth_retrying();

  Store& store_;
  Session& session_;
  const Tickets tickets_;

  base::Mutex mutex_;
  std::vector<Retry> retries_ TENURE_GUARDED_BY(mutex_);
  std::vector<Row> strays_ TENURE_GUARDED_BY(mutex_);
  bool retrying_ TENURE_GUARDED_BY(mutex_) = false;
  bool stopped_ TENURE_GUARDED_BY(mutex_) = false;
  std::uint64_t round_ TENURE_GUARDED_BY(mutex_) = 0;  // Counts the times that it was armed.
  std::unique_ptr<Watch> watch_ TENURE_GUARDED_BY(mutex_);
};

}  // namespace tenure::stored
