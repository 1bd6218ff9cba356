#include "flow/replay.hpp"

#include <algorithm>

#include "flow/core.hpp"
#include "flow/feeder.hpp"

namespace tenure::flow {
namespace {

using detail::Finish;

std::string shown_end(const Finish& finish) {
  switch (finish.kind) {
    case Finish::Kind::returned: return "returns " + finish.value;
    case Finish::Kind::threw: return "fails with " + finish.value;
    case Finish::Kind::cancelled: return "ends cancelled";
    case Finish::Kind::continued: return "continues as new with " + finish.value;
  }
  return {};
}

bool same_end(const FlowHistory& history, const Finish& finish) {
  switch (history.state) {
    case FlowState::completed:
      return finish.kind == Finish::Kind::returned && finish.value == history.result;
    case FlowState::failed:
      return finish.kind == Finish::Kind::threw && finish.value == history.result;
    default: return finish.kind == Finish::Kind::cancelled;
  }
}

}  // namespace

Replay::Replay(const FlowHistory& history, const detail::Definition& definition,
               const detail::ErrorTypes& errors)
    : machine_(std::make_unique<detail::Machine>(
          detail::Identity{.id = history.id,
                           .type = history.type,
                           .seed = history.seed,
                           .started = std::max(history.created, history.starts),
                           .last = history.last,
                           .root = history.root},
          errors)) {
  std::string difference;
  try {
    run(history, definition);
    difference = compare_end(history);
  } catch (const std::exception& error) {
    difference = error.what();
  }
  if (!difference.empty()) report_ = {order_, std::move(difference)};
}

void Replay::run(const FlowHistory& history, const detail::Definition& definition) {
  Feeder feeder{*machine_};
  feeder.begin(history.entries, history.carried);
  machine_->set_live(!history.has_begun);
  machine_->begin(definition.make(*machine_, history.input));
  std::uint32_t next = 0;
  for (const LogEntry& entry : history.entries) {
    feeder.add(entry);  // Delivers the entry before.
    if (entry.kind != EntryKind::patch) order_ = next;
    ++next;
    static_cast<void>(machine_->take_dropped());
    static_cast<void>(machine_->take_cancelled());
  }
  feeder.end(!history.has_begun);
  order_ = next;
}

// A workflow that was terminated, or failed by the engine, ended without its code.
std::string Replay::compare_end(const FlowHistory& history) const {
  const std::optional<Finish>& finish = machine_->finish();
  if (!is_terminal(history.state)) {
    const bool open_end = history.entries.empty() ||
                          history.entries.back().kind == EntryKind::slot_done ||
                          history.entries.back().kind == EntryKind::slot_failed;
    if (!finish || open_end) return {};
    return "workflow '" + history.id + "' waits after entry " + std::to_string(order_) +
           " of its history, but the program " + shown_end(*finish) + " there";
  }
  if (history.state == FlowState::cancelled || history.state == FlowState::timed_out) {
    if (!finish || same_end(history, *finish)) return {};
  }
  if (finish && same_end(history, *finish)) return {};
  if (!finish && history.state == FlowState::failed &&
      ErrorInfo::parse(history.result).type == "history-limit") {
    return {};
  }
  return "workflow '" + history.id + "' " + std::string{text_of(history.state)} + " with " +
         history.result + ", but the program " +
         (finish ? shown_end(*finish) : "waits for: " + machine_->waits_for());
}

ReplayReport Core::replay(const FlowHistory& history) const {
  const detail::Definition* const found = definition(history.type);
  if (found == nullptr) {
    return {0, "workflow '" + history.id + "': its type '" + history.type +
                   "' is not defined in this program"};
  }
  return Replay{history, *found, errors_}.report();
}

FlowHistory Core::export_history(const std::string& id) { return queries().stored_history(id); }

// Answered by a replay of what is stored: whichever engine has the workflow, in memory or not, and
// without a trace.
// NOLINTNEXTLINE(bugprone-easily-swappable-parameters): which one, what, with what.
std::string Core::query(const std::string& id, const std::string& name,
                        const std::string& arguments) {
  const FlowHistory history = queries().stored_history(id);
  if (is_terminal(history.state)) {
    throw WorkflowEnded("workflow '" + id + "' has ended (" + std::string{text_of(history.state)} +
                        "): it answers no queries any more; its result is stored");
  }
  const detail::Definition* const found = definition(history.type);
  if (found == nullptr) {
    throw BadRequest("workflow '" + id + "' has the type '" + history.type +
                     "', which is not defined in this engine: it cannot be queried here");
  }
  Replay replay{history, *found, errors_};
  if (!replay.report().fits()) throw ReplayMismatch(replay.report().difference());
  return replay.machine().answer(name, arguments);
}

}  // namespace tenure::flow
