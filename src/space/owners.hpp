// owners.hpp: the owners that somebody asks as, each once a space, with how many tickets they have.
//
// An owner can only be in a deadlock through what it, or an ancestor of it, has already: the count
// tells at an append whether a look at all tickets is needed.
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
  Terms terms;                             // Of spaces over a store.
  std::atomic<std::uint32_t> tickets = 0;  // Live ones.

  // Whether it, beside `own` tickets, or an ancestor has any.
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

  // Shared with the states' deleters, which may run after the space has gone.
  struct Book {
    const std::uint64_t fork_generation = base::fork_generation();
    std::mutex mutex;  // In a forked child a thread that is not there may hold it.
    std::unordered_map<Path, std::weak_ptr<detail::OwnerState>> states;  // Guarded by mutex.
  };
  std::shared_ptr<Book> book_ = std::make_shared<Book>();
};

}  // namespace tenure::space
