#include <fmt/core.h>

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/duration.hpp"
#include "exit_status.hpp"
#include "list.hpp"
#include "snapshot.hpp"
#include "tenure/detail/saturating.hpp"

namespace tenure::cli {
namespace {

struct Node {
  std::map<std::string, Node, std::less<>> below;  // By segment.
  std::vector<std::string> tickets;                // As they are printed, in ticket order.
};

std::string ticket_text(const TicketInfo& info, const Claim& claim, const Terminal& terminal,
                        Instant now) {
  std::string out =
      info.granted
          ? terminal.paint(Style::green, "┃ holds")
          : terminal.paint(Style::yellow, fmt::format("┊ waits, position {}", info.position));
  if (!claim.mode.is_exclusive()) out += " " + claim.mode.text();
  out += ": " + info.ticket.owner.text();
  if (const std::string label = label_text(info); !label.empty()) {
    out += fmt::format(" '{}'", label);
  }
  if (!info.host.empty()) out += fmt::format(" ({}, pid {})", printable(info.host), info.pid);
  if (!info.anchor.empty()) out += fmt::format(" [{}]", Path::of(info.anchor).text());
  if (info.since)
    out += fmt::format(" for {}", base::age_text(detail::saturating_sub(now, *info.since)));
  return out;
}

Node grow(const Snapshot& snapshot, const Terminal& terminal) {
  Node root;
  for (const TicketInfo& info : snapshot.tickets) {
    for (const Claim& claim : info.ticket.claims) {
      Node* node = &root;
      for (const std::string_view segment : claim.path.segments()) {
        node = &node->below[std::string{segment}];
      }
      node->tickets.push_back(ticket_text(info, claim, terminal, snapshot.now));
    }
  }
  return root;
}

// `lead` is the text to the left of everything below the node.
// NOLINTNEXTLINE(misc-no-recursion): a path has at most 64 segments.
void print(const Node& node, const std::string& lead) {
  for (const std::string& ticket : node.tickets) {
    fmt::print("{}{}{}\n", lead, node.below.empty() ? "  " : "│ ", ticket);
  }
  std::size_t left = node.below.size();
  for (const auto& [segment, below] : node.below) {
    const bool last = --left == 0;
    fmt::print("{}{}{}\n", lead, last ? "└─ " : "├─ ", Path::of(segment).text());
    print(below, lead + (last ? "   " : "│  "));
  }
}

}  // namespace

int tree(const TreeOptions& options, const Terminal& terminal) {
  const Snapshot snapshot = look_once(options);
  report_missing_shards(snapshot);
  if (options.json) {
    fmt::print("{}", json_text(snapshot));
    return exit_ok;
  }
  fmt::print("{}\n", terminal.paint(Style::bold, "/"));
  print(grow(snapshot, terminal), "");
  return exit_ok;
}

}  // namespace tenure::cli
