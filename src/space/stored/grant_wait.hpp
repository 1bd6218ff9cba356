// grant_wait.hpp: a notice when a ticket that is in the store is granted, without a thread per
// wait. For rooms above that append tickets in transactions of their own (tickets.hpp).
//
//   wait = GrantWait::start(space, row, ticket.number, ticket.found, [this](GrantWait::End end) {
//     …                                        // end.outcome is granted: write that down, go on.
//   });
//   if (wait == nullptr) …                     // It is granted already.
//
// It uses the waits of the space (waits.hpp): watches on the blockers of the ticket, and a new look
// at them when one fires. Nothing is written. The ticket stays in the store when the wait is
// destroyed, the space is closed or this process ends. Another process may then start a wait.
//
// `done` runs once, unless the wait is destroyed first, on a thread of the store or of the space,
// with no lock held. It must not block or throw, since other notices wait for it. It may destroy
// the wait and start others.
//
// Thread safety: a GrantWait is for one thread at a time. Once its destructor has returned, `done`
// does not run and will not, unless `done` itself destroyed it.
#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <optional>

#include "space/stored/conflict_query.hpp"
#include "space/stored/row.hpp"
#include "space/stored/stored_space.hpp"
#include "tenure/detail/backend.hpp"
#include "tenure/space.hpp"
#include "tenure/ticket.hpp"

namespace tenure::stored {

// The stored space behind a Space. Throws BadRequest for one that has no store.
[[nodiscard]] StoredSpace& stored_space(const Space& space);

class GrantWait {
 public:
  struct End {
    // granted; evicted: the ticket was removed; closed: the space was; failed: see `error`, which
    // is an AnchorLost where the anchor was removed.
    detail::WaitOutcome outcome = detail::WaitOutcome::granted;
    std::exception_ptr error;
  };
  using Done = std::function<void(const End& end)>;

  // `found`: what the append found; null: read the conflicts first. Returns null if the ticket is
  // granted already, without calling `done`. But if the store is remote(), `done` reports that too,
  // perhaps before this returns. Throws as Locker::lock() does.
  [[nodiscard]] static std::unique_ptr<GrantWait> start(StoredSpace& space, Row row, Token number,
                                                        std::optional<ConflictQuery::Found> found,
                                                        Done done);
  GrantWait(const GrantWait&) = delete;
  GrantWait& operator=(const GrantWait&) = delete;
  ~GrantWait();

 private:
  struct Inner;
  explicit GrantWait(std::shared_ptr<Inner> inner) noexcept;
  std::shared_ptr<Inner> inner_;
};

}  // namespace tenure::stored
