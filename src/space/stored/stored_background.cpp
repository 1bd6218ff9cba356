// Requests of callers that must not wait for a server: a thread of the space makes them.
//
// Whoever takes a request out of asking_ has decided how its wait ends. The thread that makes the
// request then finds it gone, and gives the ticket back if there is one.
#include <exception>
#include <utility>

#include "space/stored/stored_space.hpp"
#include "tenure/error.hpp"

namespace tenure::stored {

void StoredSpace::ask_in_background(const RecordRef& record, detail::Waiter& waiter) {
  const RequestThreads::Lane lane = waiter.caller == detail::Caller::goes_on
                                        ? RequestThreads::of_this_thread()
                                        : RequestThreads::own();
  record->waiter = &waiter;
  waiter.grant = {.ticket = record.get(), .token = {}};
  {
    const base::Mutex::Scoped lock{mutex_};
    asking_.emplace(&waiter, record);
  }
  enter();
  try {
    request_threads_->run(lane, [this, record] {
      const Working working{this};
      ask_for_waiter(record);
    });
  } catch (...) {
    bool taken = false;  // By close().
    {
      const base::Mutex::Scoped lock{mutex_};
      taken = asking_.erase(&waiter) == 0;
    }
    leave();
    if (!taken) throw;
  }
}

bool StoredSpace::is_asked(const RecordRef& record) noexcept {
  const base::Mutex::Scoped lock{mutex_};
  const auto found = asking_.find(record->waiter);
  return found != asking_.end() && found->second == record;  // The memory may be another's by now.
}

// Its ticket is there.
StoredSpace::Queued StoredSpace::queue_asked(const RecordRef& record) noexcept {
  const base::Mutex::Scoped lock{mutex_};
  const auto found = asking_.find(record->waiter);
  if (found == asking_.end() || found->second != record) return Queued::unwanted;
  if (waiting_.contains(record->number.value)) return Queued::twice;
  asking_.erase(found);
  record->waiter->grant.token = record->number;
  waiting_.emplace(record->number.value, record);
  return Queued::queued;
}

void StoredSpace::ask_for_waiter(const RecordRef& record) noexcept {
  const Stay stay{*this};
  if (!is_asked(record)) {
    leave();
    return;
  }
  View view;
  try {
    check_open();
    view = first_view(*record);
  } catch (...) {
    fail_asked(record);
    leave();
    return;
  }
  switch (queue_asked(record)) {
    case Queued::queued: break;
    case Queued::unwanted: give_up(record); return;
    case Queued::twice: try { throw_waited_for(*record);
      } catch (...) {
        fail_asked(record);
      }
      leave();
      return;
  }
  detail::Waiter& waiter = *record->waiter;
  try {
    if (wait_in_line(record, std::move(view))) tell(waiter, detail::WaitOutcome::granted);
  } catch (...) {
    waiter.error = std::current_exception();
    tell(waiter, detail::WaitOutcome::failed);
  }
}

// The exception that is being handled is how its wait ends, unless that is decided already.
void StoredSpace::fail_asked(const RecordRef& record) noexcept {
  detail::Waiter* waiter = nullptr;
  {
    const base::Mutex::Scoped lock{mutex_};
    const auto found = asking_.find(record->waiter);
    if (found == asking_.end() || found->second != record) return;
    if (!record->waiter->decide()) return;  // It is being cancelled.
    waiter = record->waiter;
    asking_.erase(found);
  }
  waiter->error = std::current_exception();
  tell(*waiter, detail::WaitOutcome::failed);
}

std::vector<detail::Waiter*> StoredSpace::take_all_asking() noexcept {
  std::vector<detail::Waiter*> waiters;
  const base::Mutex::Scoped lock{mutex_};
  std::erase_if(asking_, [&waiters](const auto& item) {
    detail::Waiter* const waiter = item.second->waiter;
    if (!waiter->decide()) return false;  // It is being cancelled.
    waiters.push_back(waiter);
    return true;
  });
  return waiters;
}

}  // namespace tenure::stored
