#include "flow_timeline.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>

#include "base/duration.hpp"
#include "tenure/detail/saturating.hpp"

namespace tenure::cli {
namespace {

Style style_of(const HistoryEntry& entry) {
  if (entry.kind.ends_with("failed")) return Style::red;
  if (entry.kind == "cancel" || entry.kind == "step cancelled") return Style::yellow;
  if (entry.kind == "step done") return Style::green;
  return Style::plain;
}

// "charge  attempt 2  {"id":7}"
std::string text_of(const HistoryEntry& entry) {
  std::string text = printable(entry.name);
  if (entry.attempt > 1 || entry.kind == "attempt failed") {
    text += fmt::format("  attempt {}", entry.attempt);
  }
  const std::string value =
      entry.kind.ends_with("failed") ? ErrorInfo::parse(entry.value).message : entry.value;
  if (!value.empty() && value != "null") text += "  " + printable(value);
  return text;
}

}  // namespace

Timeline::Timeline(const FlowInfo& info, Instant now, const Terminal& terminal, std::size_t columns)
    : begin_(info.starts), end_(info.ended.value_or(now)), terminal_(terminal), columns_(columns) {}

std::size_t Timeline::place_of(Instant time) const {
  const auto total = std::chrono::duration<double>(detail::saturating_sub(end_, begin_)).count();
  const auto since = std::chrono::duration<double>(detail::saturating_sub(time, begin_)).count();
  if (total <= 0 || since <= 0) return 0;
  const auto place = static_cast<std::size_t>(since / total * (bar_columns - 1));
  return std::min(place, bar_columns - 1);
}

std::string Timeline::bar(const HistoryEntry& entry) {
  const auto [at, first] = last_.try_emplace(entry.scope, begin_);
  const std::size_t from = place_of(at->second);
  const std::size_t to = place_of(entry.stamp);
  at->second = entry.stamp;
  std::string line;
  for (std::size_t i = from; i < to; ++i) line += "━";
  line += "●";
  return std::string(std::min(from, to), ' ') + terminal_.paint(style_of(entry), line) +
         std::string(bar_columns - 1 - to, ' ') + "  ";
}

void Timeline::print(const HistoryEntry& entry) {
  const auto since =
      std::max(detail::saturating_sub(entry.stamp, begin_), std::chrono::nanoseconds{0});
  const std::string time = "+" + base::precise_text(since);
  const bool draws = columns_ >= least_columns;
  std::string text = text_of(entry);
  const std::size_t before = 30 + (draws ? bar_columns + 2 : 0);
  if (columns_ > before) text = fit(text, columns_ - before);
  fmt::print("  {}{}  {}{} {}\n", std::string(time.size() < 10 ? 10 - time.size() : 0, ' '), time,
             draws ? bar(entry) : "",
             terminal_.paint(style_of(entry), fmt::format("{:<14}", entry.kind)), text);
}

}  // namespace tenure::cli
