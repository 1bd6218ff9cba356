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

bool StoredSpace::try_in_background(const detail::Ask& ask, detail::Waiter& waiter) {
  if (!store_->remote()) return false;
  const Stay stay{*this};
  const RecordRef record = new_record(ask);
  record->only_try = true;
  ask_in_background(record, waiter);
  return true;
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
    if (!record->only_try) {
      view = first_view(*record);
    } else if (!try_append(*record)) {
      end_asked(record, detail::WaitOutcome::taken);
      leave();
      return;
    }
  } catch (...) {
    end_asked(record, detail::WaitOutcome::failed, std::current_exception());
    leave();
    return;
  }
  switch (queue_asked(record)) {
    case Queued::queued: break;
    case Queued::unwanted: give_up(record); return;
    case Queued::twice: try { throw_waited_for(*record);
      } catch (...) {
        end_asked(record, detail::WaitOutcome::failed, std::current_exception());
      }
      leave();
      return;
  }
  detail::Waiter& waiter = *record->waiter;
  try {
    const bool granted =
        record->only_try ? hold_tried(record) : wait_in_line(record, std::move(view));
    if (granted) tell(waiter, detail::WaitOutcome::granted);
  } catch (...) {
    waiter.error = std::current_exception();
    tell(waiter, detail::WaitOutcome::failed);
  }
}

// As wait_in_line(), of a ticket that was appended because nobody was in its way.
bool StoredSpace::hold_tried(const RecordRef& record) {
  try {
    if (record->row.max_hold.count() != 0) start_own_deadline(*record);
  } catch (...) {
    if (take(record) == nullptr) return false;
    give_up(record);
    throw;
  }
  if (take(record) == nullptr) return false;
  hold(record);
  return true;
}

// Ends its wait, unless that is decided already.
void StoredSpace::end_asked(const RecordRef& record, detail::WaitOutcome outcome,
                            std::exception_ptr error) noexcept {
  detail::Waiter* waiter = nullptr;
  {
    const base::Mutex::Scoped lock{mutex_};
    const auto found = asking_.find(record->waiter);
    if (found == asking_.end() || found->second != record) return;
    if (!record->waiter->decide()) return;  // It is being cancelled.
    waiter = record->waiter;
    asking_.erase(found);
  }
  waiter->error = std::move(error);
  tell(*waiter, outcome);
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
