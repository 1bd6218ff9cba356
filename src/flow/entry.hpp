// entry.hpp: how an entry of a workflow's log, a workflow's record and a message are written.
//
// An entry is a binary header and a readable value:
//
//   byte 0        format, 1
//   byte 1        kind (EntryKind)
//   8 bytes       stamp: nanoseconds since 1970, big endian
//   8 bytes       hash of the arguments, big endian
//   varints       scope, sequence, attempt, length of the name
//   the name, then the value to the end: JSON, unless the program has its own codec
//
// All-JSON entries replay eight times slower.
//
// Thread safety: pure functions.
#pragma once

#include <cstdint>
#include <expected>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "tenure/detail/flow_machine.hpp"

namespace tenure::flow {

using detail::EntryKind;
using detail::LogEntry;
using detail::OpKey;

[[nodiscard]] bool is_entry_kind(std::uint8_t kind) noexcept;
[[nodiscard]] std::string encode(const LogEntry& entry);
// The error says what is wrong with the bytes.
[[nodiscard]] std::expected<LogEntry, std::string> decode_entry(std::string_view bytes);
// "step done 'charge' (scope 0, sequence 3)", for messages.
[[nodiscard]] std::string shown(const LogEntry& entry);

// What is stored of a workflow beside its log. Written at the start and at the end of each run.
//
// What was added later stands at the end: a number, then a text with its length in front. A record
// without them is written as before.
struct Record {
  FlowState state = FlowState::running;
  std::string type;
  std::uint64_t seed = 0;
  Instant created;
  Instant starts;  // Not before.
  std::optional<Instant> deadline;
  std::optional<Instant> ended;
  std::string idempotency_key;
  std::string admission;  // The key of its place; empty: none.
  std::string parent;     // Of a child: children.hpp; empty: none.
  std::map<std::string, std::string> tags;
  std::string input;          // JSON array of the arguments.
  std::string result;         // Of a completed one the value, else an ErrorInfo's text.
  std::uint32_t run = 0;      // How often it has continued as new.
  OpKey last;                 // The highest scope and sequence of the root that earlier runs used.
  std::uint32_t carried = 0;  // The first entries of the log: signals that the run before left.
  std::string root;           // Of a child: the first of its ancestors; empty: none.
  std::string seat;           // Of a queued one: the key of its seat.
  std::string trigger;        // The trigger's row that its end is told to; empty: none.
  friend bool operator==(const Record&, const Record&) = default;
};
[[nodiscard]] std::string encode(const Record& record);
[[nodiscard]] std::expected<Record, std::string> decode_record(std::string_view bytes);

// What a process tells the owner of a workflow.
struct Message {
  enum class Kind : std::uint8_t {  // Stored: never reuse a number.
    start = 1,
    signal = 2,
    cancel = 3,
    terminate = 4,
    start_with_signal = 5,
    child_ended = 6,       // Name: the operation that started it; value: the state and the result.
    update = 7,            // Name: the handler's; value: detail::UpdateCall.
    retry = 8,             // Name: the id of the new workflow; empty: load it again.
    trigger_changed = 16,  // To a trigger: look at the row.
    run_ended = 17,        // To a trigger: the workflow `name` has ended.
    collect = 18,          // To a trigger: a debounced call or an item of a batch.
  };
  Kind kind = Kind::signal;
  std::string workflow;  // Or the row of a trigger.
  std::string name;
  std::string value;
  friend bool operator==(const Message&, const Message&) = default;
};
[[nodiscard]] std::string encode(const Message& message);
[[nodiscard]] std::expected<Message, std::string> decode_message(std::string_view bytes);

}  // namespace tenure::flow
