#include <fmt/core.h>

#include <string>
#include <string_view>

#include "base/duration.hpp"
#include "exit_status.hpp"
#include "list.hpp"
#include "snapshot.hpp"
#include "tenure/detail/saturating.hpp"

namespace tenure::cli {
namespace {

void line(const Terminal& terminal, std::string_view name, std::string_view value) {
  if (value.empty()) return;
  fmt::print("  {} {}\n", terminal.paint(Style::dim, fmt::format("{:<10}", name)), value);
}

std::string moment(const std::optional<Instant>& time, Instant now) {
  if (!time) return {};
  return *time <= now ? fmt::format("{} ({} ago)", time_text(*time),
                                    base::age_text(detail::saturating_sub(now, *time)))
                      : fmt::format("{} (in {})", time_text(*time),
                                    base::age_text(detail::saturating_sub(*time, now)));
}

void print(const TicketInfo& info, const Terminal& terminal, Instant now) {
  const Style style = info.granted ? Style::green : Style::yellow;
  fmt::print("{} {}\n", terminal.paint(Style::bold, std::to_string(info.ticket.number.value)),
             terminal.paint(style, info.granted ? "holds" : "waits"));
  for (const Claim& claim : info.ticket.claims) line(terminal, "claim", claim.text());
  line(terminal, "unreadable", printable(info.fault));
  line(terminal, "owner", info.ticket.owner.text());
  line(terminal, "label", printable(info.label));
  line(terminal, "host", printable(info.host));
  line(terminal, "pid", info.pid != 0 ? std::to_string(info.pid) : "");
  line(terminal, "session", printable(info.session));
  if (!info.anchor.empty()) line(terminal, "anchor", Path::of(info.anchor).text());
  line(terminal, "since", moment(info.since, now));
  line(terminal, "deadline", moment(info.deadline, now));
  if (info.granted) return;
  line(terminal, "position", std::to_string(info.position));
  std::string blockers;
  for (const Token token : info.blocked_by) {
    blockers += (blockers.empty() ? "" : " ") + std::to_string(token.value);
  }
  line(terminal, "blocked by", blockers);
}

}  // namespace

int show(const ShowOptions& options, const Terminal& terminal) {
  const Snapshot snapshot = look_once(options);
  report_missing_shards(snapshot);
  if (options.json) {
    fmt::print("{}", json_text(snapshot));
    return exit_ok;
  }
  if (snapshot.tickets.empty()) {
    fmt::print("{} is free: there is no lock at it, above it or below it.\n", options.path.text());
  }
  for (std::size_t i = 0; i < snapshot.tickets.size(); ++i) {
    if (snapshot.tickets[i].ticket.claims.empty()) continue;
    if (i != 0) fmt::print("\n");
    print(snapshot.tickets[i], terminal, snapshot.now);
  }
  return exit_ok;
}

}  // namespace tenure::cli
