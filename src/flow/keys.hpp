// keys.hpp: where everything of the workflows is in the store.
//
//   \x11 c                                        how many partitions there are
//   \x11 b                                        changed by an engine that waits for partitions
//   \x11 w partition id                           the workflow's record
//   \x11 r partition id                           it has work to do: whoever owns it must load it
//   \x11 l partition length id order              one entry of its log
//   \x11 l partition length id run order          the same of a later run: the length has its high
//                                                 bit set
//   \x11 t partition due length id scope sequence a timer
//   \x11 i partition stamp                        a message to the partition's owner
//   \x11 i partition \xff number stamp            the same: one of several in one transaction
//   \x11 m partition length id message            a message id that was used
//   \x11 k idempotency key                        the id of the workflow that it started
//   \x11 a type partition key place               a place of the concurrency limit, taken
//   \x11 q type partition key                     starts queue for these places
//   \x11 e type partition key stamp               an entry of that queue
//   \x11 f type partition key seat                a seat of that queue, taken
//   \x11 u type partition key [slot]              a limit on starts per time
//   \x11 h partition id scope sequence            the anchor of a lock
//   \x11 s partition row                          a trigger: what starts workflows by itself
//   \x11 d partition length row width number id   the id of a debounced call or an item of a batch
//
// Numbers are big endian: two bytes for a partition and a length, four for order, scope, sequence
// and place, eight for a time. Names have their length in front where something follows them.
//
// Thread safety: pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "flow/entry.hpp"
#include "tenure/store.hpp"

namespace tenure::flow::keys {

using Partition = std::uint16_t;

inline constexpr std::size_t max_id = 480;  // An anchor of the space has at most 512 bytes.

[[nodiscard]] Partition partition_of(std::string_view id, std::uint32_t partitions) noexcept;

[[nodiscard]] std::string config();
[[nodiscard]] std::string bell();
[[nodiscard]] std::string record(Partition partition, std::string_view id);
[[nodiscard]] Range records(Partition partition);
[[nodiscard]] std::string id_of_record(std::string_view key);
[[nodiscard]] std::string runnable(Partition partition, std::string_view id);
[[nodiscard]] Range runnables(Partition partition);
// Values of that key: how much of the code has not run in a turn that was committed.
inline constexpr std::string_view nothing_ran =
    "start";  // All of it; the log has what the run before left.
inline constexpr std::string_view after_last = "last";  // What follows the last entry, a slot's.
[[nodiscard]] std::string log_prefix(Partition partition, std::string_view id,
                                     std::uint32_t run = 0);
[[nodiscard]] std::string log(const std::string& prefix, std::uint32_t order);
[[nodiscard]] std::uint32_t order_of(std::string_view key) noexcept;
// Entries from `order` on.
[[nodiscard]] Range log_from(const std::string& prefix, std::uint32_t order);

struct Timer {
  Partition partition = 0;
  Instant due;
  std::string id;
  OpKey key;
};
// Timers of the workflow itself.
inline constexpr std::uint32_t workflow_scope = 0xffffffffU;
inline constexpr OpKey start_timer{.scope = workflow_scope, .sequence = 1};
inline constexpr OpKey deadline_timer{.scope = workflow_scope, .sequence = 2};
inline constexpr OpKey retention_timer{.scope = workflow_scope, .sequence = 3};
// The log of an earlier run is removed; the sequence is its number.
inline constexpr std::uint32_t cleaning_scope = 0xfffffffeU;
[[nodiscard]] constexpr bool is_cleaning(const OpKey& key) noexcept {
  return key.scope == cleaning_scope || key == retention_timer;
}
// Timers of triggers; their id is the trigger's row.
inline constexpr OpKey trigger_timer{.scope = 0xfffffffdU, .sequence = 1};
[[nodiscard]] std::string timer(const Timer& timer);
[[nodiscard]] std::optional<Timer> parse_timer(std::string_view key);
[[nodiscard]] Range timers(Partition partition);

[[nodiscard]] std::string inbox(Partition partition);
// For a transaction with several messages: each one has a number. Read after those of inbox().
[[nodiscard]] std::string inbox(Partition partition, std::uint32_t number);
[[nodiscard]] Range inboxes();
[[nodiscard]] Partition partition_of_inbox(std::string_view key) noexcept;
[[nodiscard]] std::string message(Partition partition, std::string_view id,
                                  std::string_view message);
// Where messages to triggers are appended, so that one transaction can tell a trigger and a
// workflow of the same partition. `tag` tells apart what one transaction sends.
[[nodiscard]] std::string trigger_inbox(Partition partition, char tag);
[[nodiscard]] std::string trigger(Partition partition, std::string_view row);
[[nodiscard]] Range triggers(Partition partition);
// Where the ids of a row's calls are; `width` and `number` say which generation (collect_rule.hpp).
[[nodiscard]] std::string call_ids(Partition partition, std::string_view row, std::int64_t width,
                                   std::int64_t number);
[[nodiscard]] std::string anchor(Partition partition, std::string_view id, const OpKey& lock);
[[nodiscard]] std::string idempotency(std::string_view key);
[[nodiscard]] std::string places(std::string_view type, std::string_view partition_key);
[[nodiscard]] std::string place(const std::string& places, std::uint32_t number);
[[nodiscard]] std::uint32_t place_of(std::string_view key) noexcept;
// Of the queue for these places.
[[nodiscard]] std::string queue_state(const std::string& places);
[[nodiscard]] std::string queue(const std::string& places);
[[nodiscard]] std::string seats(const std::string& places);
[[nodiscard]] std::string places_of_seat(const std::string& seat);
[[nodiscard]] std::string rate(std::string_view type, std::string_view partition_key);

}  // namespace tenure::flow::keys
