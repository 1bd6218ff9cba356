#include "tenure/mutex.hpp"

#include <system_error>
#include <utility>

namespace tenure {

bool Mutex::Holds::keep(std::optional<Hold> hold) {
  if (!hold.has_value()) return false;
  const std::scoped_lock lock{mutex_};
  holds_.push_back(std::move(*hold));
  return true;
}

void Mutex::Holds::give_back() {
  Hold hold;  // Released outside the lock: that may run a waiting coroutine.
  {
    const std::scoped_lock lock{mutex_};
    if (holds_.empty()) {
      throw std::system_error(std::make_error_code(std::errc::operation_not_permitted),
                              "unlock() called on a tenure::Mutex that is not locked");
    }
    hold = std::move(holds_.back());
    holds_.pop_back();
  }
}

Token Mutex::Holds::token() const {
  const std::scoped_lock lock{mutex_};
  return holds_.empty() ? Token{} : holds_.back().token();
}

}  // namespace tenure
