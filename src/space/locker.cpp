#include "tenure/locker.hpp"

#include <chrono>
#include <memory>
#include <stop_token>
#include <string>
#include <utility>

#include "tenure/error.hpp"

namespace tenure {

void detail::check_max_hold(std::chrono::nanoseconds time) {
  if (time > std::chrono::nanoseconds::zero()) return;
  throw BadRequest("max_hold must be greater than zero, but is " + std::to_string(time.count()) +
                   " ns: for no limit, do not call it");
}

Locker Locker::max_hold(std::chrono::nanoseconds time) const {
  detail::check_max_hold(time);
  detail::Terms terms;
  terms.max_hold = time;
  return on_terms(terms);
}

Locker Locker::label(std::string text) const {
  detail::Terms terms;
  terms.label = std::move(text);
  return on_terms(terms);
}

Locker Locker::anchored(std::string key) const {
  if (key.empty()) throw BadRequest("anchored() needs a key of the store, but the key is empty");
  detail::Terms terms;
  terms.anchor = std::move(key);
  return on_terms(terms);
}

Locker Locker::request_id(std::uint64_t id) const {
  detail::Terms terms;
  terms.request_id = id;
  return on_terms(terms);
}

Locker Locker::with_txn(TxnPart part) const {
  detail::Terms terms;
  terms.part = std::make_shared<const TxnPart>(std::move(part));
  return on_terms(terms);
}

// In both functions the Locker may be destroyed when the wait ends, if its Space was.

Hold Locker::wait(const Request& request) const {
  detail::Backend* const backend = backend_.get();
  detail::SyncWaiter waiter;
  if (!backend->request(ask(request), waiter)) waiter.wait();
  waiter.throw_unless_granted();
  return detail::HoldAccess::make(backend, waiter.grant);
}

std::optional<Hold> Locker::try_once(const Request& request) const {
  detail::Grant grant;
  if (!backend_->try_request(ask(request), grant)) return std::nullopt;
  return detail::HoldAccess::make(backend_.get(), grant);
}

std::optional<Hold> Locker::wait(const Request& request, detail::TimeLeft left,
                                 std::stop_token stop) const {
  if (stop.stop_requested()) return std::nullopt;
  detail::Backend* const backend = backend_.get();
  if (const detail::Grant grant = if_free(request); grant.ticket != nullptr) {
    return detail::HoldAccess::make(backend, grant);
  }
  const std::optional<detail::Grant> grant =
      detail::wait_for_grant(*backend, ask(request), left, std::move(stop));
  if (!grant.has_value()) return std::nullopt;
  return detail::HoldAccess::make(backend, *grant);
}

std::optional<detail::Grant> detail::wait_for_grant(Backend& backend, const Ask& ask, TimeLeft left,
                                                    std::stop_token stop) {
  using std::chrono::nanoseconds;
  using std::chrono::steady_clock;
  SyncWaiter waiter;
  if (left.left != nullptr || stop.stop_possible()) {
    waiter.caller = Caller::waits_with_limit;
  }
  const bool one_try = left.left != nullptr && left() <= nanoseconds::zero();
  const steady_clock::time_point try_until = steady_clock::now() + Locker::one_try_limit;
  if (one_try) {
    if (!backend.try_in_background(ask, waiter)) {
      Grant grant;
      return backend.try_request(ask, grant) ? std::optional{grant} : std::nullopt;
    }
    left = {.left = [](const void* until) -> nanoseconds {
              return *static_cast<const steady_clock::time_point*>(until) - steady_clock::now();
            },
            .context = &try_until};
  }
  if (one_try || !backend.request(ask, waiter)) {
    const auto take_back = [&backend, &waiter]() noexcept {
      if (cancel(&backend, waiter)) waiter.set_cancelled();
    };
    const std::stop_callback on_stop{std::move(stop), take_back};
    while (!waiter.finished()) {
      if (left.left == nullptr) {
        waiter.wait();
      } else if (const nanoseconds rest = left(); rest > nanoseconds::zero()) {
        waiter.wait_for(rest);
      } else {
        take_back();
        waiter.wait();  // If the cancellation came too late, the grant is on its way.
      }
    }
  }
  if (waiter.was_cancelled() || waiter.was_taken()) return std::nullopt;
  waiter.throw_unless_granted();
  return waiter.grant;
}

}  // namespace tenure
