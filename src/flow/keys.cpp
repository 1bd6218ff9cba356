#include "flow/keys.hpp"

namespace tenure::flow::keys {
namespace {

std::string begin(char table) {
  std::string key{reserved::flow_workflows};
  key += table;
  return key;
}

// NOLINTNEXTLINE(bugprone-easily-swappable-parameters): `bytes` is always a literal.
void add(std::string& key, std::uint64_t value, int bytes) {
  for (int shift = 8 * (bytes - 1); shift >= 0; shift -= 8) {
    key += static_cast<char>(value >> static_cast<unsigned>(shift));
  }
}

std::uint64_t number(std::string_view bytes) noexcept {
  std::uint64_t value = 0;
  for (const char c : bytes) value = value << 8U | static_cast<unsigned char>(c);
  return value;
}

// NOLINTNEXTLINE(bugprone-easily-swappable-parameters): in the order of the key.
std::string in_partition(char table, Partition partition) {
  std::string key = begin(table);
  add(key, partition, 2);
  return key;
}

// Times sort as they are, before 1970 too.
constexpr std::uint64_t sign = std::uint64_t{1} << 63U;
constexpr std::size_t prefix_size = 4;  // \x11, table, partition.

}  // namespace

Partition partition_of(std::string_view id, std::uint32_t partitions) noexcept {
  std::uint64_t hash = 0xCBF29CE484222325U;
  for (const char c : id) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3U;
  hash ^= hash >> 32U;  // The low bits of FNV-1a alone are poor.
  return static_cast<Partition>(hash % partitions);
}

std::string config() { return begin('c'); }
std::string bell() { return begin('b'); }

std::string record(Partition partition, std::string_view id) {
  return in_partition('w', partition).append(id);
}
Range records(Partition partition) { return Range::prefix(in_partition('w', partition)); }
std::string id_of_record(std::string_view key) { return std::string{key.substr(prefix_size)}; }

std::string runnable(Partition partition, std::string_view id) {
  return in_partition('r', partition).append(id);
}
Range runnables(Partition partition) { return Range::prefix(in_partition('r', partition)); }

std::string log_prefix(Partition partition, std::string_view id, std::uint32_t run) {
  std::string key = in_partition('l', partition);
  add(key, run == 0 ? id.size() : id.size() | 0x8000U, 2);
  key += id;
  if (run > 0) add(key, run, 4);
  return key;
}
std::string log(const std::string& prefix, std::uint32_t order) {
  std::string key;
  key.reserve(prefix.size() + 4);
  key += prefix;
  add(key, order, 4);
  return key;
}
std::uint32_t order_of(std::string_view key) noexcept {
  return static_cast<std::uint32_t>(number(key.substr(key.size() - 4)));
}
Range log_from(const std::string& prefix, std::uint32_t order) {
  Range range = Range::prefix(prefix);
  range.from = log(prefix, order);
  return range;
}

std::string timer(const Timer& timer) {
  std::string key = in_partition('t', timer.partition);
  add(key, static_cast<std::uint64_t>(timer.due.time_since_epoch().count()) ^ sign, 8);
  add(key, timer.id.size(), 2);
  key += timer.id;
  add(key, timer.key.scope, 4);
  add(key, timer.key.sequence, 4);
  return key;
}

std::optional<Timer> parse_timer(std::string_view key) {
  constexpr std::size_t fixed = prefix_size + 8 + 2 + 4 + 4;
  if (key.size() < fixed) return std::nullopt;
  const std::uint64_t length = number(key.substr(prefix_size + 8, 2));
  if (key.size() != fixed + length) return std::nullopt;
  const auto due = static_cast<std::int64_t>(number(key.substr(prefix_size, 8)) ^ sign);
  const std::string_view tail = key.substr(key.size() - 8);
  return Timer{.partition = static_cast<Partition>(number(key.substr(2, 2))),
               .due = Instant{std::chrono::nanoseconds{due}},
               .id = std::string{key.substr(prefix_size + 10, length)},
               .key = {.scope = static_cast<std::uint32_t>(number(tail.substr(0, 4))),
                       .sequence = static_cast<std::uint32_t>(number(tail.substr(4)))}};
}
Range timers(Partition partition) { return Range::prefix(in_partition('t', partition)); }

std::string inbox(Partition partition) { return in_partition('i', partition); }
// NOLINTNEXTLINE(bugprone-easily-swappable-parameters): where, then which.
std::string inbox(Partition partition, std::uint32_t number) {
  std::string key = in_partition('i', partition) + '\xff';
  add(key, number, 4);
  return key;
}
Range inboxes() { return Range::prefix(begin('i')); }
Partition partition_of_inbox(std::string_view key) noexcept {
  return key.size() < prefix_size ? Partition{0} : static_cast<Partition>(number(key.substr(2, 2)));
}

std::string message(Partition partition, std::string_view id, std::string_view message) {
  std::string key = in_partition('m', partition);
  add(key, id.size(), 2);
  key += id;
  key += message;
  return key;
}

std::string trigger_inbox(Partition partition, char tag) {
  return in_partition('i', partition) + '\xff' + tag;
}
std::string trigger(Partition partition, std::string_view row) {
  return in_partition('s', partition).append(row);
}
Range triggers(Partition partition) { return Range::prefix(in_partition('s', partition)); }
// NOLINTNEXTLINE(bugprone-easily-swappable-parameters): in the order of the key.
std::string call_ids(Partition partition, std::string_view row, std::int64_t width,
                     std::int64_t number) {
  std::string key = in_partition('d', partition);
  add(key, row.size(), 2);
  key += row;
  add(key, static_cast<std::uint64_t>(width), 8);
  add(key, static_cast<std::uint64_t>(number), 8);
  return key;
}

std::string anchor(Partition partition, std::string_view id, const OpKey& lock) {
  std::string key = in_partition('h', partition);
  key += id;
  add(key, lock.scope, 4);
  add(key, lock.sequence, 4);
  return key;
}

std::string idempotency(std::string_view key) { return begin('k').append(key); }

std::string places(std::string_view type, std::string_view partition_key) {
  std::string key = begin('a');
  add(key, type.size(), 2);
  key += type;
  add(key, partition_key.size(), 2);
  key += partition_key;
  return key;
}
std::string place(const std::string& places, std::uint32_t number) {
  std::string key = places;
  add(key, number, 4);
  return key;
}
std::uint32_t place_of(std::string_view key) noexcept { return order_of(key); }

namespace {
std::string in_table(char table, std::string key) {
  key.at(1) = table;
  return key;
}
}  // namespace
std::string queue_state(const std::string& places) { return in_table('q', places); }
std::string queue(const std::string& places) { return in_table('e', places); }
std::string seats(const std::string& places) { return in_table('f', places); }
std::string places_of_seat(const std::string& seat) {
  return in_table('a', seat.substr(0, seat.size() - 4));
}
std::string rate(std::string_view type, std::string_view partition_key) {
  return in_table('u', places(type, partition_key));
}

}  // namespace tenure::flow::keys
