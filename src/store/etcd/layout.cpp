#include "store/etcd/layout.hpp"

#include <charconv>
#include <limits>
#include <string>
#include <system_error>

namespace tenure::etcd {
namespace {

constexpr std::size_t id_size = 16;

[[noreturn]] void refuse() {
  throw StoreError(
      "etcd: a key under the prefix was not written by Tenure: give Tenure a prefix that no other "
      "program writes to");
}

[[noreturn]] void refuse_version(unsigned version) {
  throw StoreError("etcd: the entries under the prefix have layout version " +
                   std::to_string(version) + ", but this program supports version " +
                   std::to_string(layout_version) +
                   ": use a matching Tenure, or choose another prefix");
}

}  // namespace

std::optional<std::string_view> Layout::behind(char kind,
                                               std::string_view etcd_key) const noexcept {
  if (!etcd_key.starts_with(root_) || etcd_key.size() == root_.size() ||
      etcd_key[root_.size()] != kind) {
    return std::nullopt;
  }
  return etcd_key.substr(root_.size() + 1);
}

std::optional<OrderId> Layout::order_at(std::string_view etcd_key) const noexcept {
  const auto order = behind('h', etcd_key);
  if (!order || order->size() != 2) return std::nullopt;
  const auto byte = [&](std::size_t at) { return static_cast<unsigned char>((*order)[at]); };
  return static_cast<OrderId>(byte(0) << 8U | byte(1));
}

Head parse_head(std::string_view value) {
  constexpr std::size_t times = 2 * stamp_size;
  if (value.size() != times && value.size() != times + 1) refuse();
  const unsigned version = value.size() == times ? 1U : static_cast<unsigned char>(value.back());
  if (version != layout_version) refuse_version(version);
  const Revision time = stamp_of(value.substr(0, times));
  return {.revision = stamp_of(value.substr(0, stamp_size)),
          .time = Instant{std::chrono::nanoseconds{static_cast<std::int64_t>(time.value)}}};
}

std::string head_value(const Head& head) {
  const auto time = static_cast<std::uint64_t>(head.time.time_since_epoch().count());
  return stamp(head.revision) + stamp(Revision{time}) + static_cast<char>(layout_version);
}

Value parse_value(std::string_view value) {
  if (value.size() < 2 * stamp_size) refuse();
  return {.changed = stamp_of(value.substr(0, stamp_size)),
          .created = stamp_of(value.substr(stamp_size, stamp_size)),
          .bytes = value.substr(2 * stamp_size)};
}

std::string version_value() { return head_value({.revision = this_apply, .time = {}}); }

std::string entry_value(const Value& value) {
  return (stamp(value.changed) + stamp(value.created)).append(value.bytes);
}

std::optional<std::int64_t> lease_of(std::string_view id) noexcept {
  if (id.size() != id_size || id.find_first_not_of("0123456789abcdef") != std::string_view::npos) {
    return std::nullopt;
  }
  std::uint64_t number = 0;
  std::from_chars(id.data(), id.data() + id.size(), number, 16);
  if (number == 0 || number > std::uint64_t{std::numeric_limits<std::int64_t>::max()}) {
    return std::nullopt;
  }
  return static_cast<std::int64_t>(number);
}

}  // namespace tenure::etcd
