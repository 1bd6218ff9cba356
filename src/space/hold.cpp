#include "tenure/hold.hpp"

#include <memory>

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

}  // namespace tenure
