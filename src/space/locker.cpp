#include "tenure/locker.hpp"

#include <stop_token>
#include <utility>

namespace tenure {

Hold Locker::wait(const Request& request) const {
  detail::SyncWaiter waiter;
  if (!backend_->request(ask(request), waiter)) waiter.wait();
  waiter.throw_unless_granted();
  return detail::HoldAccess::make(backend_.get(), waiter.grant);
}

std::optional<Hold> Locker::wait(const Request& request, detail::TimeLeft left,
                                 std::stop_token stop) const {
  using std::chrono::nanoseconds;
  if (stop.stop_requested()) return std::nullopt;
  if (const detail::Grant grant = if_free(request); grant.ticket != nullptr) {
    return detail::HoldAccess::make(backend_.get(), grant);
  }
  detail::SyncWaiter waiter;
  if (!backend_->request(ask(request), waiter)) {
    const auto take_back = [this, &waiter]() noexcept {
      if (backend_->cancel(waiter)) waiter.set_cancelled();
    };
    const std::stop_callback on_stop{std::move(stop), take_back};
    while (!waiter.finished()) {
      if (left.left == nullptr) {
        waiter.wait();
      } else if (const nanoseconds rest = left(); rest > nanoseconds::zero()) {
        waiter.wait_for(rest);
      } else {
        take_back();
        waiter.wait();  // If it was too late for that, it is being granted.
      }
    }
  }
  if (waiter.was_cancelled()) return std::nullopt;
  waiter.throw_unless_granted();
  return detail::HoldAccess::make(backend_.get(), waiter.grant);
}

}  // namespace tenure
