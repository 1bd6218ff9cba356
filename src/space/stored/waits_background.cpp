// Requests of callers that must not wait for a server: a thread of the space makes them.
//
// The thread that takes a request out of asking_ has decided how its wait ends. The thread that
// makes the request then finds it gone, and removes the ticket if there is one.
#include <exception>
#include <functional>
#include <memory>
#include <utility>

#include "base/thrown_by.hpp"
#include "space/stored/waits.hpp"
#include "tenure/error.hpp"

namespace tenure::stored {

void Waits::ask_in_background(const RecordRef& record, detail::Waiter& waiter) {
  const RequestThreads::Lane lane = waiter.caller == detail::Caller::goes_on
                                        ? RequestThreads::of_this_thread()
                                        : RequestThreads::own();
  record->waiter = &waiter;
  waiter.grant = {.ticket = record.get(), .token = {}};
  {
    const base::Mutex::Scoped lock{mutex_};
    asking_.emplace(&waiter, record);
  }
  parts_.life.enter();
  try {
    request_threads_->run(lane, [this, record] {
      const Lifetime::Working working{parts_.life};
      ask_for_waiter(record);
    });
  } catch (...) {
    bool taken = false;  // By close().
    {
      const base::Mutex::Scoped lock{mutex_};
      taken = asking_.erase(&waiter) == 0;
    }
    parts_.life.leave();
    if (!taken) throw;
  }
}

void Waits::in_background(std::function<bool()> call, detail::Backend::Released done) noexcept {
  parts_.life.enter();
  const auto told = std::make_shared<detail::Backend::Released>(std::move(done));
  try {
    request_threads_->run(RequestThreads::own(), [this, call = std::move(call), told] {
      const Lifetime::Working working{parts_.life};
      bool result = false;
      std::exception_ptr error = base::thrown_by([&] { result = call(); });
      (*told)(std::move(error), result);
      parts_.life.leave();
    });
  } catch (...) {  // No thread can be started.
    (*told)(std::current_exception(), false);
    parts_.life.leave();
  }
}

void Waits::try_in_background(const RecordRef& record, detail::Waiter& waiter) {
  record->only_try = true;
  ask_in_background(record, waiter);
}

bool Waits::is_asked(const RecordRef& record) noexcept {
  const base::Mutex::Scoped lock{mutex_};
  const auto found = asking_.find(record->waiter);
  // A later waiter may have the same address.
  return found != asking_.end() && found->second == record;
}

// Its ticket is in the store.
Waits::Queued Waits::queue_asked(const RecordRef& record) noexcept {
  const base::Mutex::Scoped lock{mutex_};
  const auto found = asking_.find(record->waiter);
  if (found == asking_.end() || found->second != record) return Queued::unwanted;
  if (waiting_.contains(record->number.value)) return Queued::twice;
  asking_.erase(found);
  record->waiter->grant.token = record->number;
  waiting_.try_emplace(record->number.value, Waiting{.record = record, .watches = {}});
  return Queued::queued;
}

void Waits::ask_for_waiter(const RecordRef& record) noexcept {
  const Lifetime::Stay stay{parts_.life};
  if (!is_asked(record)) {
    parts_.life.leave();
    return;
  }
  Tickets::View view;
  bool taken = false;
  std::exception_ptr error = base::thrown_by([&] {
    parts_.life.check_open();
    if (!record->only_try) {
      view = parts_.requests.first_view(*record);
    } else {
      taken = !parts_.requests.try_append(*record);
    }
  });
  if (error != nullptr || taken) {
    end_asked(record, taken ? detail::WaitOutcome::taken : detail::WaitOutcome::failed,
              std::move(error));
    parts_.life.leave();
    return;
  }
  switch (queue_asked(record)) {
    case Queued::queued: break;
    case Queued::unwanted: parts_.holds.give_up(record); return;
    case Queued::twice:
      end_asked(record, detail::WaitOutcome::failed,
                base::thrown_by([&] { throw_waited_for(*record); }));
      parts_.life.leave();
      return;
  }
  detail::Waiter& waiter = *record->waiter;
  bool granted = false;
  error = base::thrown_by([&] {
    granted = record->only_try ? hold_tried(record) : wait_in_line(record, std::move(view));
  });
  if (granted) {
    tell(waiter, detail::WaitOutcome::granted);
  } else if (error != nullptr) {
    waiter.error = std::move(error);
    tell(waiter, detail::WaitOutcome::failed);
  }
}

// As wait_in_line(), of a ticket that was appended because nothing blocked it.
bool Waits::hold_tried(const RecordRef& record) {
  try {
    if (record->row.max_hold.count() != 0) parts_.requests.start_deadline(*record);
  } catch (...) {
    if (take(record) == nullptr) return false;
    parts_.holds.give_up(record);
    throw;
  }
  if (take(record) == nullptr) return false;
  parts_.holds.hold(record);
  return true;
}

// Ends its wait, unless the outcome is decided already.
void Waits::end_asked(const RecordRef& record, detail::WaitOutcome outcome,
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

std::vector<detail::Waiter*> Waits::take_all_asking() noexcept {
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
