// The table of `ls` and `watch`.
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <vector>

#include "base/duration.hpp"
#include "snapshot.hpp"
#include "tenure/detail/saturating.hpp"

namespace tenure::cli {
namespace {

constexpr std::size_t state_column = 2;
using Row = std::array<std::string, 10>;
const Row head{"PATH", "MODE", "STATE", "POS", "SINCE", "OWNER", "TOKEN", "HOST", "PID", "LABEL"};

struct Line {
  Path path;
  Token token;
  bool granted = false;
  Row cells;
};

Line line_of(const TicketInfo& info, const Claim& claim, Instant now) {
  return {.path = claim.path,
          .token = info.ticket.number,
          .granted = info.granted,
          .cells = {claim.path.text(), claim.mode.text(), info.granted ? "holds" : "waits",
                    info.granted ? "" : std::to_string(info.position),
                    info.since ? base::age_text(detail::saturating_sub(now, *info.since)) : "",
                    info.ticket.owner.text(), std::to_string(info.ticket.number.value),
                    printable(info.host), info.pid != 0 ? std::to_string(info.pid) : "",
                    label_text(info)}};
}

std::string row_text(const Row& cells, const Row& widest, const Terminal& terminal, Style style,
                     std::size_t columns) {
  std::string out;
  std::size_t used = 0;
  std::size_t gap = 0;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    if (columns != 0 && used + gap >= columns) break;
    const std::string cell = columns != 0 ? fit(cells.at(i), columns - used - gap) : cells.at(i);
    if (!cell.empty()) {
      out.append(gap, ' ');
      out += i == state_column ? terminal.paint(style, cell) : cell;
      used += gap + width(cell);
      gap = 0;
    }
    gap += widest.at(i).size() + 2 - width(cell);
  }
  return out + "\n";
}

}  // namespace

std::string table_text(const Snapshot& snapshot, const Terminal& terminal, std::size_t columns) {
  std::vector<Line> lines;
  for (const TicketInfo& info : snapshot.tickets) {
    for (const Claim& claim : info.ticket.claims) {
      lines.push_back(line_of(info, claim, snapshot.now));
    }
  }
  std::ranges::sort(lines, [](const Line& a, const Line& b) {
    return a.path != b.path ? a.path < b.path : a.token < b.token;
  });
  Row widest = head;  // As many blanks as the column is wide.
  for (const Line& line : lines) {
    for (std::size_t i = 0; i < head.size(); ++i) {
      const std::size_t needed = std::max(widest.at(i).size(), width(line.cells.at(i)));
      widest.at(i).assign(needed, ' ');
    }
  }
  std::string out;
  const std::string title = row_text(head, widest, Terminal{false}, Style::plain, columns);
  out += terminal.paint(Style::dim, std::string_view{title}.substr(0, title.size() - 1)) + "\n";
  for (const Line& line : lines) {
    out += row_text(line.cells, widest, terminal, line.granted ? Style::green : Style::yellow,
                    columns);
  }
  return out;
}

}  // namespace tenure::cli
