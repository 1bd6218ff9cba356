// collect.hpp: many calls, one workflow: debounce and batch.
//
//   engine.debounce({.key = "customer-7", .wait = 5s, .max_wait = 1min}, "reindex", "customer-7");
//   engine.batch({.key = "warehouse", .max_items = 100, .max_wait = 10s}, "ship", order);
//
//               | the window of a key opens | it closes                          | and starts one
//               | with                      |                                    | workflow with
//   ------------+---------------------------+------------------------------------+----------------
//   debounce    | the first call            | `wait` after the last call, at the | the arguments
//               |                           | latest `max_wait` after the first  | of the last call
//   batch       | the first item            | when it has `max_items`, at the    | a list of all
//               |                           | latest `max_wait` after the first  | its items
//
// A call is in the store when it returns. A window is a row of the store: it survives crashes, and
// all engines share it. The calls that a workflow stands for, its start and the end of the window
// are one transaction: each call counts exactly once. The workflow has the tags "debounce" (the
// key) and "calls" (how many), or "batch" and "items".
//
// Where a limit of the type refuses the start, the window stays open, and the start is tried again
// every second. The options of the last call of a window hold.
//
// Values; thread safety as of any struct.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace tenure {

struct DebounceOptions {
  // NOLINTBEGIN(readability-redundant-member-init)
  std::string key{};                    // Windows are by type and key.
  std::chrono::nanoseconds wait{};      // Greater than zero.
  std::chrono::nanoseconds max_wait{};  // Zero: no limit.
  // The first call of a window starts a workflow at once; the end of the window starts another one
  // only where there were more calls.
  bool leading = false;
  bool trailing = true;
  // A call with an id that this type and key had within the last `remember` is dropped.
  std::string call_id{};
  std::chrono::nanoseconds remember = std::chrono::hours{1};
  // NOLINTEND(readability-redundant-member-init)
};

struct BatchOptions {
  // NOLINTBEGIN(readability-redundant-member-init)
  std::string key{};
  // 1 to 10,000. A batch whose items have 512 KiB together is full, too.
  std::uint32_t max_items = 0;
  std::chrono::nanoseconds max_wait{};  // Greater than zero.
  // An item with an id that this type and key had within the last `remember` is dropped.
  std::string item_id{};
  std::chrono::nanoseconds remember = std::chrono::hours{1};
  // NOLINTEND(readability-redundant-member-init)
};

}  // namespace tenure
