#include "store/memory/orders.hpp"

#include <algorithm>
#include <set>
#include <utility>

#include "store/common/orders.hpp"

namespace tenure::memory {

using stores::all_orders;
using stores::order_of;
using stores::order_of_key;

namespace {

// The lower bits of a revision are the number of the apply, which makes it unique.
constexpr unsigned apply_bits = 24;
constexpr std::uint64_t max_start = 1U << 30U;  // Where an order may begin,
constexpr std::uint64_t max_growth = 64;        // and by how much it grows at most.

}  // namespace

struct Orders::Touched {
  std::set<std::string> names;
  bool all = false;
  std::uint64_t head = 0;  // The largest revision in any of them.
};

Orders::Touched Orders::touched_by(const Txn& txn) {
  Touched touched;
  const auto add = [&](std::string name) {
    if (name == all_orders) {
      touched.all = true;
    } else {
      touched.names.insert(std::move(name));
    }
  };
  // A line of / is in every order already: reading it needs no other.
  const auto add_read = [&](const Range& range, std::string_view otherwise) {
    std::string name = order_of(range).value_or(std::string{otherwise});
    const bool line = name == all_orders && !range.from.ends_with('\1');
    if (!name.empty() && !line) add(std::move(name));
  };
  for (const Guard& guard : txn.guards) add_read(guard.range, all_orders);
  for (const Write& write : txn.writes) add(order_of_key(write.key));
  for (const Range& range : txn.reads) add_read(range, {});
  touched.head = last_;
  for (const std::string& name : touched.names) {
    const auto [at, added] = heads_.try_emplace(name);
    if (added) at->second = (1 + random() % max_start) << apply_bits;
    touched.head = std::max(touched.head, at->second);
  }
  if (touched.all) {
    for (const auto& [name, head] : heads_) touched.head = std::max(touched.head, head);
  }
  return touched;
}

void Orders::raise(const Touched& touched, std::uint64_t to) {
  for (const std::string& name : touched.names) heads_[name] = to;
  if (touched.all) last_ = to;
}

Revision Orders::next(const Txn& txn) {
  if (!by_root()) return {++last_};
  const Touched touched = touched_by(txn);
  const std::uint64_t step = (touched.head >> apply_bits) + 1 + (random() % max_growth);
  const std::uint64_t own = ++applies_ & ((1U << apply_bits) - 1);
  const std::uint64_t revision = (step << apply_bits) | own;
  raise(touched, revision);
  return {revision};
}

Revision Orders::last(const Txn& txn) {
  if (!by_root()) return {last_};
  const Touched touched = touched_by(txn);
  raise(touched, touched.head);
  return {touched.head};
}

std::uint64_t Orders::random() noexcept {  // xorshift64
  seed_ ^= seed_ << 13U;
  seed_ ^= seed_ >> 7U;
  seed_ ^= seed_ << 17U;
  return seed_;
}

}  // namespace tenure::memory
