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
#include <utility>

#include "base/fork.hpp"
#include "tenure/detail/backend.hpp"

namespace tenure::detail {

struct OwnerState {
  Owner owner;
  OwnerRef parent;
  OwnerRef plain;  // The same owner without terms, which counts the tickets; null: this one.
  Terms terms;
  std::atomic<std::uint32_t> tickets = 0;  // Live ones.

  void count(std::uint32_t change) noexcept {
    (plain != nullptr ? plain->tickets : tickets).fetch_add(change, std::memory_order_relaxed);
  }
  // Whether it has more than `own` tickets, or an ancestor has any. Nobody has none.
  [[nodiscard]] bool has_more_than(std::uint32_t own) const noexcept {
    if (owner.anonymous()) return false;
    const auto& live = plain != nullptr ? plain->tickets : tickets;
    if (live.load(std::memory_order_relaxed) > own) return true;
    for (const OwnerState* up = parent.get(); up != nullptr; up = up->parent.get()) {
      if (up->tickets.load(std::memory_order_relaxed) > 0) return true;
    }
    return false;
  }
};

// `old`, and whatever `added` has.
inline Terms merge(Terms old, const Terms& added) {
  if (added.max_hold.count() != 0) old.max_hold = added.max_hold;
  if (!added.label.empty()) old.label = added.label;
  if (!added.anchor.empty()) old.anchor = added.anchor;
  if (added.part != nullptr) old.part = added.part;
  if (added.request_id.has_value()) old.request_id = added.request_id;
  return old;
}

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
