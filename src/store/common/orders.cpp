#include "store/common/orders.hpp"

#include <array>
#include <cstddef>

namespace tenure::stores {
namespace {

constexpr std::array regions{reserved::exclusive_claims, reserved::shared_claims,
                             reserved::group_claims};

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

}  // namespace tenure::stores
