// owners.hpp: the owners in use, one record per owner and space, with their number of tickets.
//
// An owner can be deadlocked only if it, or an ancestor of it, already has tickets. So the count
// tells at an append whether a deadlock search is needed.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "base/fork.hpp"
#include "tenure/detail/backend.hpp"

namespace tenure::detail {

struct OwnerState {
  Owner owner;
  OwnerRef parent;
  Terms terms;                             // Used by spaces over a store.
  std::atomic<std::uint32_t> tickets = 0;  // Live ones.

  // Whether it has more than `own` tickets, or an ancestor has any.
  [[nodiscard]] bool has_more_than(std::uint32_t own) const noexcept {
    if (tickets.load(std::memory_order_relaxed) > own) return true;
    for (const OwnerState* up = parent.get(); up != nullptr; up = up->parent.get()) {
      if (up->tickets.load(std::memory_order_relaxed) > 0) return true;
    }
    return false;
  }
};

}  // namespace tenure::detail

namespace tenure::space {

class Owners {
 public:
  detail::OwnerRef get(const Owner& owner);

 private:
  detail::OwnerRef get_below(detail::OwnerRef parent, const Path& id);

  // Shared with the states' deleters, which may run after the space was destroyed.
  struct Book {
    const std::uint64_t fork_generation = base::fork_generation();
    std::mutex mutex;  // In a forked child, a thread that does not exist there may hold it.
    std::unordered_map<Path, std::weak_ptr<detail::OwnerState>> states;  // Guarded by mutex.
  };
  std::shared_ptr<Book> book_ = std::make_shared<Book>();
};

}  // namespace tenure::space
