#include "tenure/hold.hpp"

#include <chrono>
#include <memory>
#include <optional>
#include <stop_token>
#include <utility>

#include "tenure/detail/saturating.hpp"
#include "tenure/error.hpp"
#include "tenure/rule.hpp"

namespace tenure {

Hold Hold::again(const Request& request) const {
  if (backend_ == nullptr) throw BadRequest("again() called on an empty Hold: lock first");
  if (const auto fault = find_again_fault(claims(), request.claims())) throw BadRequest(*fault);
  if (handles_ == nullptr) handles_ = std::make_unique<Handles>(1).release();
  handles_->fetch_add(1, std::memory_order_relaxed);
  Hold handle{backend_, grant_};
  handle.handles_ = handles_;
  return handle;
}

void Hold::check_only_handle() const {
  if (handles_ == nullptr || handles_->load(std::memory_order_acquire) == 1) return;
  throw BadRequest("this hold has other handles, made by again(): release them first");
}

bool Hold::upgrade_within(const Request& request, detail::TimeLeft left, std::stop_token stop) {
  if (backend_ == nullptr) throw BadRequest("upgrade() called on an empty Hold: lock first");
  check_only_handle();
  if (stop.stop_requested()) return false;
  const detail::OwnerRef nobody;
  const detail::Ask ask{.claims = request.claims(), .owner = nobody, .held = &grant_};
  const std::optional<detail::Grant> grant =
      detail::wait_for_grant(*backend_, ask, left, std::move(stop));
  if (!grant.has_value()) return false;
  backend_->drop(std::exchange(grant_, *grant));
  return true;
}

void Hold::upgrade(const Request& request) { static_cast<void>(upgrade_within(request, {}, {})); }

bool Hold::upgrade(const Request& request, std::stop_token stop) {
  return upgrade_within(request, {}, std::move(stop));
}

bool Hold::try_upgrade(const Request& request) {
  return try_upgrade_for(request, std::chrono::nanoseconds::zero());
}

bool Hold::try_upgrade_for(const Request& request, std::chrono::nanoseconds time,
                           std::stop_token stop) {
  using std::chrono::steady_clock;
  const auto until = detail::saturating_add(steady_clock::now(), time);
  const auto left = [](const void* end) -> std::chrono::nanoseconds {
    return detail::saturating_sub(*static_cast<const steady_clock::time_point*>(end),
                                  steady_clock::now());
  };
  return upgrade_within(request, {.left = left, .context = &until}, std::move(stop));
}

}  // namespace tenure
