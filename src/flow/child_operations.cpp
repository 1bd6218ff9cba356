// What a workflow awaits of its children, apart from what depends on types.
#include "tenure/detail/flow_children.hpp"
#include "tenure/detail/flow_operations.hpp"
#include "tenure/detail/saturating.hpp"

namespace tenure::detail {

// --- how a child ended

ChildEnd ChildEnd::of(const LogEntry& entry) {
  ChildEnd end{.id = entry.name, .state = FlowState::completed, .value = entry.value};
  if (entry.kind == EntryKind::child_done) return end;
  const nlohmann::json json = nlohmann::json::parse(entry.value);
  const auto state = json.at("state").get<std::string>();
  for (const FlowState one : {FlowState::failed, FlowState::cancelled, FlowState::timed_out}) {
    if (text_of(one) == state) end.state = one;
  }
  end.value = json.at("error").dump();
  return end;
}

LogEntry ChildEnd::entry(const OpKey& key, const ChildEnd& end) {
  LogEntry entry;
  entry.kind = end.state == FlowState::completed ? EntryKind::child_done : EntryKind::child_failed;
  entry.key = key;
  entry.name = end.id;
  entry.value = end.value;
  if (end.state != FlowState::completed) {
    entry.value =
        nlohmann::json{{"state", text_of(end.state)}, {"error", nlohmann::json::parse(end.value)}}
            .dump();
  }
  return entry;
}

void ChildEnd::raise() const { throw ChildFailed(id, state, ErrorInfo::parse(value)); }

// --- children

ChildBase::ChildBase(Scope& scope, ChildOptions options, std::string type, std::string input,
                     bool awaited)
    : Operation(scope, OpKind::child, std::move(type)),
      options_(std::move(options)),
      input_(std::move(input)),
      awaited_(awaited) {
  if (name().empty()) throw BadRequest("a child must have a workflow type");
  options_.timeout = checked_pause(options_.timeout);
}

std::optional<Instant> ChildBase::deadline() const {
  if (options_.timeout.count() == 0) return std::nullopt;
  return saturating_add(first_, options_.timeout);
}

void ChildBase::begin() {
  first_ = machine().now();
  child_id_ = options_.id.empty() ? machine().identity().id + "/" + std::to_string(key().scope) +
                                        "." + std::to_string(key().sequence)
                                  : options_.id;
  Hasher hasher;
  hasher.add_value(input_);
  hasher.add_value(child_id_);
  hash_ = hasher.value();
  machine().add_child(
      key(),
      {.id = child_id_, .on_parent_close = options_.on_parent_close, .ended = {}, .waiters = {}});
}

bool ChildBase::take(const LogEntry& entry) {
  switch (entry.kind) {
    case EntryKind::child_started:
      started_ = true;
      machine().deactivate(*this);
      return !awaited_;
    case EntryKind::child_refused:
      failed_ = ChildEnd{.id = child_id_, .state = FlowState::failed, .value = entry.value};
      machine().remove_child(key());
      break;
    case EntryKind::child_done:
      if (awaited_) take_value(entry.value);
      break;
    default:
      if (awaited_) failed_ = ChildEnd::of(entry);
  }
  if (awaited_ && cancel_requested()) cancelled_by_entry();
  return true;
}

void ChildBase::throw_if_failed() const {
  if (failed_) failed_->raise();
}

// --- results

ChildResultBase::ChildResultBase(Scope& scope, const Child& child)
    : Operation(scope, OpKind::child_result, child.id()), child_(child.key()) {
  if (machine().child(child_) == nullptr) {
    throw BadRequest("workflow '" + machine().identity().id + "' has no child '" + child.id() +
                     "': only the run that started a child can wait for it");
  }
}

bool ChildResultBase::await_ready() {
  if (Operation::await_ready()) return true;
  const ChildState* const child = machine().child(child_);
  if (child == nullptr || !child->ended) return false;
  take_end(*child->ended);
  return true;
}

void ChildResultBase::take_end(const ChildEnd& end) {
  if (end.state == FlowState::completed) {
    take_value(end.value);
  } else {
    failed_ = end;
  }
}

bool ChildResultBase::take(const LogEntry& entry) {
  take_end(ChildEnd::of(entry));
  return true;
}

void ChildResultBase::throw_if_failed() const {
  if (failed_) failed_->raise();
}

}  // namespace tenure::detail
