// snapshot.hpp: holders and waiters at one moment, and their JSON.
#pragma once

#include <string>
#include <vector>

#include "options.hpp"
#include "space_choice.hpp"
#include "tenure/space.hpp"
#include "tenure/store.hpp"
#include "terminal.hpp"

namespace tenure::cli {

struct Snapshot {
  std::string url;
  Instant now;                      // By the store's clock, like all times in here.
  std::vector<TicketInfo> tickets;  // In ticket order.
};

[[nodiscard]] Snapshot look(const OpenSpace& in, const SpaceChoice& choice, const Path& path);
// The same for commands that read once. If the file of this user does not exist yet, the snapshot
// is empty.
[[nodiscard]] Snapshot look_once(const ListOptions& options);

// Of a sharded space: what is wrong with each shard that did not answer.
[[nodiscard]] std::vector<std::string> missing_shards(const Snapshot& snapshot);
// On standard error.
void report_missing_shards(const Snapshot& snapshot);

// One document, on one line if `compact`; docs/cli.md describes the fields.
[[nodiscard]] std::string json_text(const Snapshot& snapshot, bool compact = false);
// The text to show for a ticket's label.
[[nodiscard]] std::string label_text(const TicketInfo& info);
// "2026-01-31T12:00:00.123Z"
[[nodiscard]] std::string time_text(Instant time);

// The table of `ls`. Lines are cut at `columns`; 0: not cut.
[[nodiscard]] std::string table_text(const Snapshot& snapshot, const Terminal& terminal,
                                     std::size_t columns);

}  // namespace tenure::cli
