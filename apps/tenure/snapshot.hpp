// snapshot.hpp: who holds and who waits, at one moment, and its JSON.
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
// The same for commands that look once. The file of this user that is not there yet is empty.
[[nodiscard]] Snapshot look_once(const ListOptions& options);

// One document, in one line where `compact`; fields: docs/cli.md.
[[nodiscard]] std::string json_text(const Snapshot& snapshot, bool compact = false);
// What to show in the place of a ticket's label.
[[nodiscard]] std::string label_text(const TicketInfo& info);
// "2026-01-31T12:00:00.123Z"
[[nodiscard]] std::string time_text(Instant time);

// The table of `ls`. Lines are cut at `columns`; 0: they are not.
[[nodiscard]] std::string table_text(const Snapshot& snapshot, const Terminal& terminal,
                                     std::size_t columns);

}  // namespace tenure::cli
