#include "store/memory/orders.hpp"

#include <algorithm>
#include <array>
#include <set>
#include <utility>

namespace tenure::memory {
namespace {

constexpr std::array regions{reserved::exclusive_claims, reserved::shared_claims,
                             reserved::group_claims};
// The lower bits of a revision are the number of the apply, which makes it unique.
constexpr unsigned apply_bits = 24;
constexpr std::uint64_t max_start = 1U << 30U;  // Where an order may begin,
constexpr std::uint64_t max_growth = 64;        // and by how much it grows at most.

// The first segment, as keys.hpp writes it: \1, its length in one byte or two, and its bytes.
std::string_view first_segment(std::string_view path) {
  if (path.size() < 2 || path.front() != '\1') return {};
  std::size_t size = static_cast<unsigned char>(path[1]);
  std::size_t from = 2;
  if (size >= 0x80U) {
    if (path.size() < 3) return {};
    size = (size & 0x7fU) | static_cast<std::size_t>(static_cast<unsigned char>(path[2])) << 7U;
    from = 3;
  }
  if (path.size() < from + size) return {};
  return path.substr(0, from + size);
}

struct KeyOrder {
  std::string_view order;  // Empty: no ticket has such a key.
  std::size_t size = 0;    // Of what all keys of that order in this region begin with.
};

KeyOrder order_in(std::string_view key) {
  for (const std::string_view region : regions) {
    if (!key.starts_with(region)) continue;
    const std::string_view path = key.substr(region.size());
    if (path.starts_with('\0')) return {.order = all_orders, .size = region.size() + 1};
    const std::string_view root = first_segment(path);
    if (!root.empty()) return {.order = root, .size = region.size() + root.size()};
    if (path.starts_with('\1')) return {.order = all_orders, .size = region.size() + 1};
  }
  return {};
}

}  // namespace

std::string order_of_key(std::string_view key) {
  const KeyOrder found = order_in(key);
  return std::string{found.order.empty() ? key : found.order};
}

std::optional<std::string> order_of(const Range& range) {
  if (range.to == range.from + '\0') return order_of_key(range.from);
  const KeyOrder found = order_in(range.from);
  if (found.order.empty()) return std::nullopt;
  const std::string end = prefix_end(range.from.substr(0, found.size));
  const bool inside = !range.to.empty() && (end.empty() || range.to <= end);
  return std::string{inside ? found.order : all_orders};
}

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
