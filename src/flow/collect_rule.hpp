// collect_rule.hpp: what debounced calls and items of batches do to the row of their window. Pure.
//
//   row                      | what is in it
//   -------------------------+----------------------------------------------------------
//   open: calls > 0          | a window that has not closed
//   kept: calls == 0         | ids of earlier calls that are to be removed later
//   none                     | nothing of this type and key is remembered
//
// Ids are keys of the store in generations as long as `remember`: a call puts its id into the
// generation of its time, where neither this one nor the one before has it. A generation is removed
// when the one after it is over.
//
// Invariants
//   1. A call is consumed once: the step that consumes it removes its message in the same
//      transaction. The calls of all starts, with those of the open window, are the calls consumed.
//   2. A step makes at most one start, and consumes no call behind it.
//
// Thread safety: pure functions.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <expected>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tenure/collect.hpp"
#include "tenure/store.hpp"

namespace tenure::flow {

inline constexpr std::size_t max_collect_key = 400;  // Bytes of the type and the key together.
inline constexpr std::size_t max_call_id = 400;
inline constexpr std::uint32_t max_batch_items = 10'000;
inline constexpr std::size_t max_batch_bytes = std::size_t{512} * 1024;
inline constexpr std::chrono::seconds put_off_pause{1};  // After a start that a limit refused.

// Which ids are forgotten together.
struct Generation {
  std::int64_t width = 0;  // Nanoseconds.
  std::int64_t number = 0;
  friend auto operator<=>(const Generation&, const Generation&) = default;
};
[[nodiscard]] Generation generation_at(std::chrono::nanoseconds remember, Instant time);
// When the ids of a generation are not needed any more.
[[nodiscard]] Instant forgotten(const Generation& generation);

// Of both kinds: a batch has max_items, and its wait is zero.
struct CollectOptions {
  std::string key;
  std::chrono::nanoseconds wait{};
  std::chrono::nanoseconds max_wait{};
  bool leading = false;
  bool trailing = true;
  std::uint32_t max_items = 0;
  friend bool operator==(const CollectOptions&, const CollectOptions&) = default;
  [[nodiscard]] bool is_batch() const noexcept { return max_items > 0; }
};

// What a caller sends to the owner of the row.
struct CollectCall {
  CollectOptions options;
  std::string type;
  std::string input;  // JSON: the arguments, or the item of a batch.
  Instant at;
  std::optional<Generation> generation;  // Of its id; nothing: it has none.
  friend bool operator==(const CollectCall&, const CollectCall&) = default;
};
[[nodiscard]] std::string encode(const CollectCall& call);
[[nodiscard]] std::expected<CollectCall, std::string> decode_call(std::string_view bytes);

struct CollectState {
  CollectOptions options;
  std::string type;
  Instant first;
  Instant last;
  std::uint64_t calls = 0;          // Of the open window.
  std::uint64_t started = 0;        // Of these, how many a start at the front stands for.
  std::vector<std::string> inputs;  // All of a batch, else that of the last call.
  std::size_t bytes = 0;            // Of all inputs since the window was opened.
  Instant not_before;               // A limit refused the start.
  std::vector<Generation> generations;
  std::optional<Instant> timer;  // The one that is in the store.
  friend bool operator==(const CollectState&, const CollectState&) = default;
};
[[nodiscard]] std::string encode(const CollectState& state);
[[nodiscard]] std::expected<CollectState, std::string> decode_collect(std::string_view bytes);

// These throw BadRequest.
[[nodiscard]] CollectOptions checked(const DebounceOptions& options, std::string_view type);
[[nodiscard]] CollectOptions checked(const BatchOptions& options, std::string_view type);
void check_id(std::string_view type, std::string_view id, std::chrono::nanoseconds remember);
[[nodiscard]] std::string collect_row(const CollectOptions& options, std::string_view type);
// For messages: "debounce of 'reindex' with key 'customer-7'".
[[nodiscard]] std::string shown_collect(const CollectOptions& options, std::string_view type);

// When the window closes, if no call comes before.
[[nodiscard]] Instant closes(const CollectState& state);

struct CollectStep {
  CollectState state;
  bool gone = false;                 // The row is to be removed.
  std::size_t consumed = 0;          // Calls, from the front.
  std::optional<std::string> start;  // Arguments.
  std::uint64_t calls = 0;           // That the start stands for.
  CollectState before;               // Of the start: with all that was consumed.
  std::optional<Generation> forget;  // Its ids are to be removed.
  bool again = false;                // There may be more to do now.
};
[[nodiscard]] CollectStep step(std::optional<CollectState> row, std::span<const CollectCall> calls,
                               Instant now);
// The ids of the step's `forget` are gone.
[[nodiscard]] CollectState forgot(CollectState state, const Generation& generation);
// The start was refused by a limit: what to make of CollectStep::before.
[[nodiscard]] CollectState put_off(CollectState state, Instant now);

}  // namespace tenure::flow
