#include "space/owners.hpp"

#include <utility>

namespace tenure::space {

detail::OwnerRef Owners::get(const Owner& owner) {
  detail::OwnerRef state;
  for (std::size_t depth = 1; depth <= owner.id.depth(); ++depth) {
    state = get_below(std::move(state), owner.id.prefix(depth));
  }
  return state;
}

detail::OwnerRef Owners::get_below(detail::OwnerRef parent, const Path& id) {
  const std::scoped_lock lock{book_->mutex};
  std::weak_ptr<detail::OwnerState>& known = book_->states[id];
  if (detail::OwnerRef state = known.lock()) return state;
  const auto forget = [book = book_](detail::OwnerState* state) {
    if (!base::forked_since(book->fork_generation)) {
      const std::scoped_lock inner{book->mutex};
      const auto found = book->states.find(state->owner.id);
      // A new state may have been made since the last reference to this one was dropped.
      if (found != book->states.end() && found->second.expired()) book->states.erase(found);
    }
    delete state;
  };
  auto made = std::make_unique<detail::OwnerState>();
  made->owner = Owner{id};
  made->parent = std::move(parent);
  detail::OwnerRef state{made.release(), forget};
  known = state;
  return state;
}

}  // namespace tenure::space
