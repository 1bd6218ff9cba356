#include "snapshot.hpp"

#include <fmt/core.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

namespace tenure::cli {
namespace {

using Json = nlohmann::ordered_json;

Json time_or_null(const std::optional<Instant>& time) {
  return time ? Json(time_text(*time)) : Json(nullptr);
}

Json json_of(const Claim& claim) {
  Json out = Json::object();
  out["path"] = claim.path.text();
  out["mode"] = claim.mode.text();
  if (!claim.mode.is_exclusive()) out["group"] = std::string{claim.mode.name()};
  if (claim.mode.limit() != 0) out["limit"] = claim.mode.limit();
  if (claim.mode.limit() != 0) out["take"] = claim.mode.weight();
  return out;
}

Json json_of(const TicketInfo& info) {
  Json out = Json::object();
  out["token"] = std::to_string(info.ticket.number.value);
  out["state"] = info.granted ? "holds" : "waits";
  out["position"] = info.position;
  out["claims"] = Json::array();
  for (const Claim& claim : info.ticket.claims) out["claims"].push_back(json_of(claim));
  out["owner"] = info.ticket.owner.anonymous() ? Json(nullptr) : Json(info.ticket.owner.text());
  out["session"] = info.session;
  out["anchor"] = info.anchor.empty() ? Json(nullptr) : Json(Path::of(info.anchor).text());
  out["host"] = info.host;
  out["pid"] = info.pid;
  out["label"] = info.label;
  out["since"] = time_or_null(info.since);
  out["deadline"] = time_or_null(info.deadline);
  out["asked_to_leave"] = info.asked_to_leave;
  out["fault"] = info.fault.empty() ? Json(nullptr) : Json(info.fault);
  out["blocked_by"] = Json::array();
  for (const Token token : info.blocked_by) {
    out["blocked_by"].push_back(std::to_string(token.value));
  }
  return out;
}

}  // namespace

Snapshot look(const OpenSpace& in, const SpaceChoice& choice, const Path& path) {
  Snapshot out;
  out.url = choice.shown;
  out.tickets = in.space.inspect(path);
  out.now = in.now();
  return out;
}

Snapshot look_once(const ListOptions& options) {
  const SpaceChoice choice = choose_space(options.space);
  if (choice.of_this_user && !exists(choice)) {
    const auto now = std::chrono::system_clock::now();
    return {.url = choice.shown, .now = now, .tickets = {}};
  }
  return look(open_existing_space(choice), choice, options.path);
}

std::string json_text(const Snapshot& snapshot, bool compact) {
  Json out = Json::object();
  out["space"] = snapshot.url;
  out["now"] = time_text(snapshot.now);
  out["tickets"] = Json::array();
  for (const TicketInfo& info : snapshot.tickets) out["tickets"].push_back(json_of(info));
  // Bytes of a group that are not UTF-8 become U+FFFD; its mode has them as %XX.
  return out.dump(compact ? -1 : 2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::vector<std::string> missing_shards(const Snapshot& snapshot) {
  std::vector<std::string> out;
  for (const TicketInfo& info : snapshot.tickets) {
    if (info.ticket.claims.empty()) out.push_back(printable(info.fault));
  }
  return out;
}

void report_missing_shards(const Snapshot& snapshot) {
  for (const std::string& fault : missing_shards(snapshot)) {
    fmt::print(stderr, "tenure: not listed: {}\n", fault);
  }
}

std::string label_text(const TicketInfo& info) {
  return info.fault.empty() ? printable(info.label) : "unreadable: see tenure doctor";
}

std::string time_text(Instant time) {
  using namespace std::chrono;
  const auto whole = floor<seconds>(time);  // In nanoseconds it may be out of range.
  const std::time_t stamp = whole.time_since_epoch().count();
  std::tm parts{};
  ::gmtime_r(&stamp, &parts);
  std::array<char, 32> text{};
  const std::size_t size = std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%S", &parts);
  return fmt::format("{}.{:03}Z", std::string_view{text.data(), size},
                     (floor<milliseconds>(time) - whole).count());
}

}  // namespace tenure::cli
