#include "flow/updates.hpp"

#include <chrono>
#include <future>
#include <nlohmann/json.hpp>

#include "flow/core.hpp"
#include "flow/instance.hpp"
#include "flow/queries.hpp"

namespace tenure {

std::string_view text_of(UpdateState state) noexcept {
  switch (state) {
    case UpdateState::sent: return "sent";
    case UpdateState::rejected: return "rejected";
    case UpdateState::accepted: return "accepted";
    case UpdateState::completed: return "completed";
    case UpdateState::failed: return "failed";
  }
  return "unknown";
}

}  // namespace tenure

// --- inside the workflow

namespace tenure::detail {

std::string UpdateCall::text() const {
  return "[" + nlohmann::json(id).dump() + "," + arguments + "]";
}

UpdateCall UpdateCall::parse(std::string_view text) {
  const nlohmann::json json = nlohmann::json::parse(text);
  if (!json.is_array() || json.size() != 2 || !json.at(1).is_array()) {
    throw BadRequest("an update is a list of its id and its arguments");
  }
  return {.id = json.at(0).get<std::string>(), .arguments = json.at(1).dump()};
}

void Machine::add_update(const std::string& name, UpdateRunner& runner) {
  if (!runners_.try_emplace(name, &runner).second) {
    throw BadRequest("workflow '" + identity_.id + "' has a handler for the update '" + name +
                     "' already");
  }
}

void Machine::remove_update(const std::string& name) {
  runners_.erase(name);
  std::vector<std::string> left;
  for (const auto& [id, handler] : updates_) {
    if (handler == name) left.push_back(id);
  }
  for (std::string& id : left) {
    update_ended({.id = std::move(id),
                  .ok = false,
                  .value = ErrorInfo{.type = "handler-gone",
                                     .code = {},
                                     .message = "the workflow ended, or went on without the "
                                                "handler, before the handler had ended"}
                               .text()});
  }
}

void Machine::validate_update(const std::string& name, std::string_view arguments) const {
  if (const auto at = runners_.find(name); at != runners_.end()) {
    at->second->validate(arguments);
    return;
  }
  std::string known;
  for (const auto& [one, runner] : runners_) known += (known.empty() ? "" : ", ") + one;
  throw BadRequest("it has no handler for the update '" + name +
                   "'; it takes: " + (known.empty() ? "none" : known));
}

void Machine::update_ended(UpdateEnd end) {
  updates_.erase(end.id);
  update_ends_.push_back(std::move(end));
}

void Machine::deliver_update(const LogEntry& entry) {
  const auto at = runners_.find(entry.name);
  if (at == runners_.end()) mismatch(entry, "the program has no handler for it");
  try {
    const UpdateCall call = UpdateCall::parse(entry.value);
    updates_.emplace(call.id, entry.name);
    at->second->run(call.id, call.arguments);
  } catch (const std::exception& error) {
    mismatch(entry, std::string{"its arguments have other types: "} + error.what());
  }
}

}  // namespace tenure::detail

namespace tenure::flow {
namespace {

constexpr std::size_t max_update_id = 400;
constexpr std::chrono::seconds drain_check{1};  // Whether the engine was drained.

constexpr char accepted_tag = 'a';
constexpr char rejected_tag = 'r';
constexpr char completed_tag = 'd';
constexpr char failed_tag = 'f';

// NOLINTNEXTLINE(bugprone-easily-swappable-parameters): as in all calls here.
std::string described(const std::string& id, const std::string& update) {
  std::string text = "update '";
  return text.append(update).append("' of workflow '").append(id).append("'");
}

}  // namespace

std::string encode(UpdateState state, std::string_view value) {
  std::string text;
  switch (state) {
    case UpdateState::sent: return text;
    case UpdateState::accepted: text = accepted_tag; break;
    case UpdateState::rejected: text = rejected_tag; break;
    case UpdateState::completed: text = completed_tag; break;
    case UpdateState::failed: text = failed_tag; break;
  }
  return text.append(value);
}

UpdateOutcome decode_outcome(std::string_view bytes) {
  UpdateOutcome outcome;
  if (bytes.empty()) return outcome;
  switch (bytes.front()) {
    case accepted_tag: outcome.state = UpdateState::accepted; break;
    case rejected_tag: outcome.state = UpdateState::rejected; break;
    case completed_tag: outcome.state = UpdateState::completed; break;
    case failed_tag: outcome.state = UpdateState::failed; break;
    default: throw Error("the outcome of an update is damaged, or a newer version wrote it");
  }
  outcome.value = bytes.substr(1);
  return outcome;
}

// No id that is text has this byte: signals and updates have ids of their own.
std::string update_key(keys::Partition partition, std::string_view workflow,
                       std::string_view update) {
  return keys::message(partition, workflow, "\xff" + std::string{update});
}

UpdateOutcome read_outcome(Store& store, keys::Partition partition, const std::string& workflow,
                           const std::string& update) {
  Txn txn;
  txn.reads.push_back(Range::key(keys::record(partition, workflow)));
  txn.reads.push_back(Range::key(update_key(partition, workflow, update)));
  const Outcome read = store.apply(txn);
  if (read.reads[0].empty()) throw NoSuchWorkflow("there is no workflow '" + workflow + "'");
  if (read.reads[1].empty()) {
    throw NoSuchWorkflow("workflow '" + workflow + "' was sent no update '" + update + "'");
  }
  UpdateOutcome outcome = decode_outcome(read.reads[1].front().value);
  outcome.workflow_ended = is_terminal(parsed_record(read.reads[0].front()).state);
  outcome.seen = read.revision;
  return outcome;
}

// --- the owner's side

void Instance::handle_update(const Message& message, Turn& turn) {
  const detail::UpdateCall call = detail::UpdateCall::parse(message.value);
  try {
    machine_->validate_update(message.name, call.arguments);
  } catch (...) {
    turn.updates[call.id] =
        encode(UpdateState::rejected, core_.errors().describe(std::current_exception()).text());
    return;
  }
  append_note(EntryKind::update, message.name, message.value, turn);
  if (!turn.full) turn.updates[call.id] = encode(UpdateState::accepted, {});
}

// What ended in this turn, and what was accepted or rejected.
void Instance::store_updates(Turn& turn) {
  if (machine_) {
    for (const detail::UpdateEnd& end : machine_->take_updates()) {
      turn.updates[end.id] =
          encode(end.ok ? UpdateState::completed : UpdateState::failed, end.value);
    }
  }
  for (const auto& [update, outcome] : turn.updates) {
    turn.txn.writes.push_back(Write::put(update_key(partition_, id_, update), outcome));
  }
}

// --- the caller's side

Update Core::update(UpdateOptions options, const std::string& id, std::string_view name,
                    std::string arguments) {
  if (options.id.size() > max_update_id) {
    throw BadRequest("the id of an update has " + std::to_string(options.id.size()) +
                     " bytes; use at most " + std::to_string(max_update_id));
  }
  if (options.id.empty()) {
    options.id =
        detail::to_hex(std::to_string(options_.random()) + std::to_string(options_.random()));
  }
  const detail::UpdateCall call{.id = options.id, .arguments = std::move(arguments)};
  std::string text;
  try {
    text = call.text();
  } catch (const nlohmann::json::exception&) {
    throw BadRequest("the id of an update must be UTF-8");
  }
  send(id,
       {.kind = Message::Kind::update,
        .workflow = {},
        .name = std::string{name},
        .value = std::move(text)},
       "\xff" + options.id);
  return {shared_from_this(), id, options.id};
}

UpdateOutcome Core::update_outcome(const std::string& id, const std::string& update) {
  begin();
  return read_outcome(*store_, partition_of(id), id, update);
}

UpdateOutcome Core::await_update(const std::string& id, const std::string& update, bool accepted) {
  while (true) {
    UpdateOutcome outcome = update_outcome(id, update);
    const bool over =
        outcome.state != UpdateState::sent && (accepted || outcome.state != UpdateState::accepted);
    if (over) return outcome;
    if (outcome.workflow_ended) {
      throw WorkflowEnded(described(id, update) + " did not end before the workflow did");
    }
    auto promise = std::make_shared<std::promise<void>>();
    auto told = std::make_shared<std::atomic<bool>>(false);
    const std::future<void> changed = promise->get_future();
    WatchFor what;
    what.ranges.push_back(Range::key(update_key(partition_of(id), id, update)));
    what.ranges.push_back(Range::key(keys::record(partition_of(id), id)));
    what.after = outcome.seen;
    const std::unique_ptr<Watch> watch = store_->watch(std::move(what), [promise, told] {
      if (!told->exchange(true)) promise->set_value();
    });
    while (changed.wait_for(drain_check) != std::future_status::ready) {
      if (stopping()) {
        throw Closed(described(id, update) + " did not end before the engine was drained");
      }
    }
  }
}

}  // namespace tenure::flow

namespace tenure {

Update Engine::begin_update(UpdateOptions options, const std::string& id, std::string_view name,
                            std::string arguments) {
  return core_->update(std::move(options), id, name, std::move(arguments));
}

UpdateState Update::state() const { return core_->update_outcome(workflow_, id_).state; }

void Update::wait_accepted() const {
  const flow::UpdateOutcome outcome = core_->await_update(workflow_, id_, true);
  if (outcome.state == UpdateState::rejected) {
    throw UpdateRejected(workflow_, id_, ErrorInfo::parse(outcome.value));
  }
}

std::string Update::wait() const {
  flow::UpdateOutcome outcome = core_->await_update(workflow_, id_, false);
  if (outcome.state == UpdateState::rejected) {
    throw UpdateRejected(workflow_, id_, ErrorInfo::parse(outcome.value));
  }
  if (outcome.state == UpdateState::failed) {
    throw UpdateFailed(workflow_, id_, ErrorInfo::parse(outcome.value));
  }
  return std::move(outcome.value);
}

}  // namespace tenure
