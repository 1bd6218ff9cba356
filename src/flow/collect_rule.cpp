#include "flow/collect_rule.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/duration.hpp"
#include "tenure/detail/saturating.hpp"
#include "tenure/error.hpp"

namespace tenure::flow {
namespace {

using Json = nlohmann::ordered_json;
using detail::saturating_add;

std::int64_t stored_count(Instant time) { return time.time_since_epoch().count(); }
// Throws where it is none: nlohmann converts fractions, too.
template <class T>
T integer_of(const Json& json) {
  if (!json.is_number_integer()) throw BadRequest("a number is missing");
  return json.get<T>();
}
std::chrono::nanoseconds stored_time(const Json& json) {
  return std::chrono::nanoseconds{integer_of<std::int64_t>(json)};
}

Json json_of(const CollectOptions& options) {
  return {{"key", options.key},
          {"wait", options.wait.count()},
          {"max_wait", options.max_wait.count()},
          {"leading", options.leading},
          {"trailing", options.trailing},
          {"max_items", options.max_items}};
}
CollectOptions options_of(const Json& json) {
  return {.key = json.at("key").get<std::string>(),
          .wait = stored_time(json.at("wait")),
          .max_wait = stored_time(json.at("max_wait")),
          .leading = json.at("leading").get<bool>(),
          .trailing = json.at("trailing").get<bool>(),
          .max_items = integer_of<std::uint32_t>(json.at("max_items"))};
}

Json json_of(const Generation& generation) { return Json{generation.width, generation.number}; }
Generation generation_of(const Json& json) {
  const Generation generation{.width = integer_of<std::int64_t>(json.at(0)),
                              .number = integer_of<std::int64_t>(json.at(1))};
  if (generation.width <= 0) throw BadRequest("a generation of ids has no length");
  return generation;
}

void check_wait(const std::string& name, std::string_view what, std::chrono::nanoseconds wait) {
  if (wait.count() > 0 && wait <= base::max_duration) return;
  throw BadRequest(name + ": " + std::string{what} +
                   " must be greater than zero, and at most a hundred years");
}

// NOLINTNEXTLINE(bugprone-easily-swappable-parameters): a word of the message, then the text.
void check_text(const std::string& name, std::string_view what, std::string_view text) {
  try {
    static_cast<void>(nlohmann::json(text).dump());
  } catch (const nlohmann::json::exception&) {
    throw BadRequest(name + ": the " + std::string{what} + " must be UTF-8");
  }
}

void check_key(const std::string& name, std::string_view type, std::string_view key) {
  check_text(name, "key", key);
  if (type.size() + key.size() <= max_collect_key) return;
  throw BadRequest(name + ": type and key have " + std::to_string(type.size() + key.size()) +
                   " bytes; use at most " + std::to_string(max_collect_key));
}

bool is_full(const CollectState& state) {
  return state.options.is_batch() &&
         (state.calls >= state.options.max_items || state.bytes >= max_batch_bytes);
}

bool wants_front(const CollectState& state) {
  return state.options.leading && state.calls > 0 && state.started == 0;
}

Instant next_start(const CollectState& state) {
  return wants_front(state) ? std::max(state.first, state.not_before) : closes(state);
}

void consume(CollectState& state, const CollectCall& call) {
  state.options = call.options;
  if (state.calls == 0) {
    state.type = call.type;
    state.first = state.last = call.at;
  }
  state.last = std::max(state.last, call.at);
  ++state.calls;
  if (!call.options.is_batch()) state.inputs.clear();
  state.inputs.push_back(call.input);
  state.bytes += call.input.size();
  if (!call.generation) return;
  const auto at = std::ranges::lower_bound(state.generations, *call.generation);
  if (at == state.generations.end() || *at != *call.generation) {
    state.generations.insert(at, *call.generation);
  }
}

std::string arguments_of(const CollectState& state) {
  if (!state.options.is_batch()) return state.inputs.back();
  std::string list = "[[";
  for (const std::string& item : state.inputs) list += (list.size() > 2 ? "," : "") + item;
  return list + "]]";
}

void close(CollectState& state) {
  state.calls = state.started = 0;
  state.bytes = 0;
  state.inputs.clear();
  state.not_before = {};
}

void set_timer(CollectState& state) {
  state.timer.reset();
  if (state.calls > 0) state.timer = next_start(state);
  for (const Generation& generation : state.generations) {
    state.timer = std::min(state.timer.value_or(Instant::max()), forgotten(generation));
  }
}

// Its time has come: at the front of the window, or at its end.
void start_or_close(CollectStep& out) {
  CollectState& state = out.state;
  out.calls = state.calls - state.started;
  out.before = state;
  if (wants_front(state)) {
    out.start = arguments_of(state);
    state.started = state.calls;
    return;
  }
  if (state.options.trailing && out.calls > 0) out.start = arguments_of(state);
  close(state);
}

}  // namespace

Generation generation_at(std::chrono::nanoseconds remember, Instant time) {
  const std::int64_t at = stored_count(time);
  std::int64_t number = at / remember.count();
  if (at < 0 && number * remember.count() != at) --number;
  return {.width = remember.count(), .number = number};
}

Instant forgotten(const Generation& generation) {
  std::int64_t end = 0;
  if (__builtin_mul_overflow(generation.width, generation.number, &end)) return Instant::max();
  return saturating_add(saturating_add(Instant{std::chrono::nanoseconds{end}},
                                       std::chrono::nanoseconds{generation.width}),
                        std::chrono::nanoseconds{generation.width});
}

CollectOptions checked(const DebounceOptions& options, std::string_view type) {
  const std::string name = "debounce of '" + std::string{type} + "'";
  check_wait(name, "wait", options.wait);
  if (options.max_wait.count() != 0 &&
      (options.max_wait < options.wait || options.max_wait > base::max_duration)) {
    throw BadRequest(name +
                     ": max_wait must be zero for no limit, or at least wait and at most a "
                     "hundred years");
  }
  if (!options.leading && !options.trailing) {
    throw BadRequest(name + ": nothing would ever start; set leading, trailing or both");
  }
  check_key(name, type, options.key);
  return {.key = options.key,
          .wait = options.wait,
          .max_wait = options.max_wait,
          .leading = options.leading,
          .trailing = options.trailing};
}

CollectOptions checked(const BatchOptions& options, std::string_view type) {
  const std::string name = "batch of '" + std::string{type} + "'";
  if (options.max_items == 0 || options.max_items > max_batch_items) {
    throw BadRequest(name + ": max_items must be 1 to " + std::to_string(max_batch_items) +
                     ", not " + std::to_string(options.max_items));
  }
  check_wait(name, "max_wait", options.max_wait);
  check_key(name, type, options.key);
  return {.key = options.key, .max_wait = options.max_wait, .max_items = options.max_items};
}

// NOLINTNEXTLINE(bugprone-easily-swappable-parameters): of what, which one.
void check_id(std::string_view type, std::string_view id, std::chrono::nanoseconds remember) {
  const std::string name = "a call of '" + std::string{type} + "'";
  check_text(name, "id", id);
  if (id.size() > max_call_id) {
    throw BadRequest(name + ": the id has " + std::to_string(id.size()) + " bytes; use at most " +
                     std::to_string(max_call_id));
  }
  check_wait(name, "remember", remember);
}

std::string collect_row(const CollectOptions& options, std::string_view type) {
  return (options.is_batch() ? "b" : "d") + std::to_string(type.size()) + " " + std::string{type} +
         options.key;
}

std::string shown_collect(const CollectOptions& options, std::string_view type) {
  return std::string{options.is_batch() ? "batch" : "debounce"} + " of '" + std::string{type} +
         "' with key '" + options.key + "'";
}

Instant closes(const CollectState& state) {
  Instant end = saturating_add(state.last, state.options.wait);
  if (is_full(state)) {
    end = state.last;
  } else if (state.options.is_batch()) {
    end = saturating_add(state.first, state.options.max_wait);
  } else if (state.options.max_wait.count() > 0) {
    end = std::min(end, saturating_add(state.first, state.options.max_wait));
  }
  return std::max(end, state.not_before);
}

CollectStep step(std::optional<CollectState> row, std::span<const CollectCall> calls, Instant now) {
  CollectStep out;
  out.state = std::move(row).value_or(CollectState{});
  CollectState& state = out.state;
  // When the next call came. A full batch takes none: now.
  const auto at = [&](std::size_t i) {
    if (i == calls.size() || is_full(state)) return now;
    return std::min(std::max(calls[i].at, state.last), now);
  };
  while (!out.start) {
    if (state.calls > 0 && next_start(state) <= at(out.consumed)) {
      start_or_close(out);
    } else if (out.consumed < calls.size() && !is_full(state)) {
      consume(state, calls[out.consumed++]);
    } else {
      break;
    }
  }
  if (!out.start) {
    out.calls = 0;
    for (const Generation& generation : state.generations) {
      if (forgotten(generation) <= now) out.forget = generation;
    }
  }
  out.again = out.start || out.forget;
  set_timer(state);
  out.gone = state.calls == 0 && state.generations.empty();
  return out;
}

CollectState forgot(CollectState state, const Generation& generation) {
  std::erase(state.generations, generation);
  set_timer(state);
  return state;
}

CollectState put_off(CollectState state, Instant now) {
  state.not_before = saturating_add(now, put_off_pause);
  set_timer(state);
  return state;
}

std::string encode(const CollectCall& call) {
  Json out{{"options", json_of(call.options)},
           {"type", call.type},
           {"input", call.input},
           {"at", stored_count(call.at)}};
  if (call.generation) out["generation"] = json_of(*call.generation);
  return out.dump();
}

std::expected<CollectCall, std::string> decode_call(std::string_view bytes) {
  try {
    const Json in = Json::parse(bytes);
    CollectCall call{.options = options_of(in.at("options")),
                     .type = in.at("type").get<std::string>(),
                     .input = in.at("input").get<std::string>(),
                     .at = Instant{stored_time(in.at("at"))},
                     .generation = std::nullopt};
    if (in.contains("generation")) call.generation = generation_of(in.at("generation"));
    return call;
  } catch (const std::exception& error) {
    return std::unexpected("the call is damaged: " + std::string{error.what()});
  }
}

std::string encode(const CollectState& state) {
  Json generations = Json::array();
  for (const Generation& generation : state.generations) {
    generations.push_back(json_of(generation));
  }
  Json out{{"options", json_of(state.options)},
           {"type", state.type},
           {"first", stored_count(state.first)},
           {"last", stored_count(state.last)},
           {"calls", state.calls},
           {"started", state.started},
           {"inputs", state.inputs},
           {"bytes", state.bytes},
           {"not_before", stored_count(state.not_before)},
           {"generations", std::move(generations)}};
  if (state.timer) out["timer"] = stored_count(*state.timer);
  return out.dump();
}

std::expected<CollectState, std::string> decode_collect(std::string_view bytes) {
  try {
    const Json in = Json::parse(bytes);
    CollectState state;
    state.options = options_of(in.at("options"));
    in.at("type").get_to(state.type);
    state.first = Instant{stored_time(in.at("first"))};
    state.last = Instant{stored_time(in.at("last"))};
    state.calls = integer_of<std::uint64_t>(in.at("calls"));
    state.started = integer_of<std::uint64_t>(in.at("started"));
    in.at("inputs").get_to(state.inputs);
    state.bytes = integer_of<std::size_t>(in.at("bytes"));
    state.not_before = Instant{stored_time(in.at("not_before"))};
    for (const Json& one : in.at("generations")) state.generations.push_back(generation_of(one));
    if (in.contains("timer")) state.timer = Instant{stored_time(in.at("timer"))};
    if (state.started > state.calls || (state.calls > 0 && state.inputs.empty())) {
      return std::unexpected("the window is damaged: it has calls without arguments");
    }
    return state;
  } catch (const std::exception& error) {
    return std::unexpected("the window is damaged: " + std::string{error.what()});
  }
}

}  // namespace tenure::flow
