#include "store/postgres/buckets.hpp"

#include <algorithm>
#include <array>
#include <string>

#include "store/common/orders.hpp"
#include "store/common/watch_table.hpp"

namespace tenure::postgres {
namespace {

constexpr int first_root_bucket = 2;
constexpr std::string_view flow_root{"\1\6tenure"};

// Written into the database, in effect: FNV-1a must not change.
int bucket_of_root(std::string_view root) {
  if (root == flow_root) return flow_bucket;
  std::uint64_t hash = 0xcbf29ce484222325U;
  for (const char c : root) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
  hash ^= hash >> 32U;
  return first_root_bucket + static_cast<int>(hash % (bucket_count - first_root_bucket));
}

enum class Kind : std::uint8_t {
  one,      // In one bucket.
  session,  // In plain_bucket, but see the table.
  every,    // Written with all buckets locked.
  none,     // Locked by the apply's other keys.
  several,  // A range over buckets.
};
struct Place {
  Kind kind = Kind::one;
  int bucket = plain_bucket;
};

Place place_by_first_byte(char first) {
  if (first == reserved::sessions.front()) return {.kind = Kind::session};
  if (first == reserved::owner_tickets.front()) return {.kind = Kind::none};
  if (first == reserved::void_connections.front() || first == reserved::shard_map.front()) {
    return {.kind = Kind::every};
  }
  if (first == reserved::request_ids.front() || first == reserved::flow_slots.front() ||
      first == reserved::flow_workflows.front()) {
    return {.bucket = flow_bucket};
  }
  return {};
}

bool is_ticket(std::string_view key) {
  return key.starts_with(reserved::exclusive_claims) ||
         key.starts_with(reserved::group_claims.front());
}

Place place_of(std::string_view key) {
  if (key.empty()) return {};
  if (!is_ticket(key)) return place_by_first_byte(key.front());
  const std::string order = stores::order_of_key(key);
  if (order == stores::all_orders) return {.kind = Kind::every};
  if (order == key) return {};  // No ticket has such a key.
  return {.bucket = bucket_of_root(order)};
}

// Whether the range is on the path / itself, and not below it.
bool is_top_line(const Range& range) {
  constexpr std::array regions{reserved::exclusive_claims, reserved::shared_claims,
                               reserved::group_claims};
  return std::ranges::any_of(regions, [&range](std::string_view region) {
    const std::string line = std::string{region} + '\0';
    return range.from.starts_with(line) && !range.to.empty() && range.to <= prefix_end(line);
  });
}

Place place_of(const Range& range) {
  if (stores::is_one_key(range)) return place_of(range.from);
  if (is_ticket(range.from)) {
    const std::optional<std::string> order = stores::order_of(range);
    if (!order) return {.kind = Kind::several};
    if (*order != stores::all_orders) return {.bucket = bucket_of_root(*order)};
    return {.kind = is_top_line(range) ? Kind::every : Kind::several};
  }
  if (range.from.empty()) return {.kind = Kind::several};
  const char first = range.from.front();
  const auto byte = static_cast<unsigned char>(first);
  if (byte >= static_cast<unsigned char>(reserved::first_free)) return {};
  const std::string end = prefix_end(std::string{first});
  if (range.to.empty() || range.to > end) return {.kind = Kind::several};
  return place_by_first_byte(first);
}

void add_read(Buckets& buckets, const Range& range, bool guard) {
  const Place place = place_of(range);
  if (place.kind == Kind::several && (guard || is_below_top(range))) buckets.add_all();
  if (place.kind == Kind::session && !(guard && stores::is_one_key(range))) {
    buckets.add(place.bucket);
  }
  if (place.kind == Kind::one) buckets.add(place.bucket);
}

}  // namespace

void Buckets::add(int bucket) {
  if (all_) return;
  const auto at = std::ranges::lower_bound(list_, bucket);
  if (at == list_.end() || *at != bucket) list_.insert(at, bucket);
}

void Buckets::add(const Buckets& others) {
  if (others.all_) add_all();
  for (const int bucket : others.list_) add(bucket);
}

Buckets buckets_of(const Txn& txn, bool own_session) {
  Buckets buckets;
  for (const Guard& guard : txn.guards) {
    const bool wide = guard.kind == Guard::Kind::quiet;
    add_read(buckets, wide ? guard.range : Range::key(guard.range.from), true);
  }
  for (const Write& write : txn.writes) {
    const Place place = place_of(write.key);
    const bool others =
        place.kind == Kind::session && write.kind == Write::Kind::remove && !own_session;
    if (place.kind == Kind::every || others) {
      buckets.add_all();
    } else if (place.kind != Kind::none) {
      buckets.add(place.bucket);
    }
  }
  for (const Range& range : txn.reads) add_read(buckets, range, false);
  if (!buckets.all() && buckets.list().empty()) buckets.add(plain_bucket);
  return buckets;
}

std::optional<int> notice_bucket(std::string_view key) {
  const Place place = place_of(key);
  return place.kind == Kind::none ? std::nullopt : std::optional{place.bucket};
}

std::optional<int> notice_bucket(const Range& range) {
  const Place place = place_of(range);
  const bool many = place.kind == Kind::several || place.kind == Kind::none;
  return many ? std::nullopt : std::optional{place.bucket};
}

bool is_below_top(const Range& range) {
  return place_of(range).kind == Kind::several && is_ticket(range.from) &&
         stores::order_of(range).has_value();
}

}  // namespace tenure::postgres
