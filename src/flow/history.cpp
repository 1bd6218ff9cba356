// A history as JSON.
#include <nlohmann/json.hpp>

#include "flow/entry.hpp"
#include "tenure/detail/flow_values.hpp"
#include "tenure/error.hpp"
#include "tenure/flow_history.hpp"

namespace tenure {
namespace {

using Json = nlohmann::ordered_json;
using detail::EntryKind;
using detail::LogEntry;

constexpr int history_format = 1;

// Text; bytes that are no UTF-8 as {"hex":…}.
Json text_json(const std::string& bytes) {
  Json text = bytes;
  try {
    static_cast<void>(text.dump());
  } catch (const Json::exception&) {
    return Json{{"hex", detail::to_hex(bytes)}};
  }
  return text;
}
std::string text_of_json(const Json& json) {
  if (json.is_object()) return detail::from_hex(json.at("hex").get<std::string>());
  return json.get<std::string>();
}

std::int64_t nanoseconds(Instant time) { return time.time_since_epoch().count(); }
Instant instant(const Json& json) {
  return Instant{std::chrono::nanoseconds{json.get<std::int64_t>()}};
}

Json json_of(const LogEntry& entry) {
  return {{"kind", detail::text_of(entry.kind)},
          {"name", text_json(entry.name)},
          {"scope", entry.key.scope},
          {"sequence", entry.key.sequence},
          {"attempt", entry.attempt},
          {"stamp", nanoseconds(entry.stamp)},
          {"hash", entry.hash},
          {"value", text_json(entry.value)}};
}

EntryKind kind_of(const std::string& text) {
  for (std::uint8_t number = 1; number < 128; ++number) {
    const auto kind = static_cast<EntryKind>(number);
    if (flow::is_entry_kind(number) && detail::text_of(kind) == text) return kind;
  }
  throw BadRequest("there is no kind of entry '" + text + "': a newer version wrote it");
}

LogEntry entry_of(const Json& json) {
  LogEntry entry;
  entry.kind = kind_of(json.at("kind").get<std::string>());
  entry.name = text_of_json(json.at("name"));
  entry.key.scope = json.at("scope").get<std::uint32_t>();
  entry.key.sequence = json.at("sequence").get<std::uint32_t>();
  entry.attempt = json.at("attempt").get<std::uint32_t>();
  entry.stamp = instant(json.at("stamp"));
  entry.hash = json.at("hash").get<std::uint64_t>();
  entry.value = text_of_json(json.at("value"));
  return entry;
}

FlowState state_of(const std::string& text) {
  for (const FlowState state : {FlowState::queued, FlowState::running, FlowState::completed,
                                FlowState::failed, FlowState::cancelled, FlowState::timed_out}) {
    if (text_of(state) == text) return state;
  }
  throw BadRequest("there is no state '" + text + "'");
}

FlowHistory history_of(const Json& json) {
  const int format = json.at("tenure_history").get<int>();
  if (format != history_format) {
    throw BadRequest("it has format " + std::to_string(format) +
                     ", and this program knows format 1: use the version that wrote it, or a "
                     "newer one");
  }
  FlowHistory history;
  history.id = text_of_json(json.at("id"));
  history.type = text_of_json(json.at("type"));
  history.state = state_of(json.at("state").get<std::string>());
  history.seed = json.at("seed").get<std::uint64_t>();
  history.created = instant(json.at("created"));
  history.starts = instant(json.at("starts"));
  history.run = json.at("run").get<std::uint32_t>();
  history.last.scope = json.at("last").at(0).get<std::uint32_t>();
  history.last.sequence = json.at("last").at(1).get<std::uint32_t>();
  history.carried = json.at("carried").get<std::uint32_t>();
  history.root = text_of_json(json.at("root"));
  history.input = text_of_json(json.at("input"));
  history.result = text_of_json(json.at("result"));
  history.has_begun = json.at("has_begun").get<bool>();
  for (const Json& entry : json.at("entries")) history.entries.push_back(entry_of(entry));
  return history;
}

}  // namespace

std::string FlowHistory::json() const {
  Json document{{"tenure_history", history_format},
                {"id", text_json(id)},
                {"type", text_json(type)},
                {"state", text_of(state)},
                {"seed", seed},
                {"created", nanoseconds(created)},
                {"starts", nanoseconds(starts)},
                {"run", run},
                {"last", {last.scope, last.sequence}},
                {"carried", carried},
                {"root", text_json(root)},
                {"input", text_json(input)},
                {"result", text_json(result)},
                {"has_begun", has_begun},
                {"entries", Json::array()}};
  for (const LogEntry& entry : entries) document["entries"].push_back(json_of(entry));
  return document.dump(1) + "\n";
}

FlowHistory FlowHistory::parse(std::string_view json) {
  try {
    return history_of(Json::parse(json));
  } catch (const std::exception& error) {
    throw BadRequest(std::string{"the history of a workflow cannot be read: "} + error.what());
  }
}

}  // namespace tenure
