// orders.hpp: the revisions of a memory store: one order of all applies, or, to test that nothing
// relies on that, an order per root.
//
// In the order of roots, each root (the first segment of the path of a ticket's key) and each other
// key has revisions of its own, which start anywhere and grow by any amount. An apply is ordered
// with what its guards, writes and reads touch, and with nothing else: its revision is larger than
// all earlier ones there, and smaller than all later ones. The path / is in every root, so a ticket
// there, and a read of all that is below /, touch everything. A read of a whole region, or of other
// keys that are not one, tells what is there at the moment, and orders nothing. Revisions stay
// unique.
//
// Invariants
//   1. next() and last() are larger than what was given before in any order that the transaction
//      touches, last() perhaps equal.
//   2. The same calls have the same outcomes.
//
// Thread safety: none.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "tenure/memory_store.hpp"
#include "tenure/store.hpp"

namespace tenure::memory {

class Orders {
 public:
  explicit Orders(MemoryStore::Order kind) : kind_(kind) {}

  [[nodiscard]] bool by_root() const noexcept { return kind_ == MemoryStore::Order::by_root; }
  // Of an apply that writes, and of one that does not.
  [[nodiscard]] Revision next(const Txn& txn);
  [[nodiscard]] Revision last(const Txn& txn);

 private:
  struct Touched;
  [[nodiscard]] Touched touched_by(const Txn& txn);
  void raise(const Touched& touched, std::uint64_t to);
  [[nodiscard]] std::uint64_t random() noexcept;

  MemoryStore::Order kind_;
  std::uint64_t last_ = 0;     // Of all applies; in the order of roots, of what is in every root.
  std::uint64_t applies_ = 0;  // That write.
  std::uint64_t seed_ = 1;
  std::map<std::string, std::uint64_t> heads_;
};

}  // namespace tenure::memory
