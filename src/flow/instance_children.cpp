// A workflow and its children: starts, ends, and what the end of the one means for the other.
#include "flow/children.hpp"
#include "flow/core.hpp"
#include "flow/instance.hpp"
#include "tenure/detail/flow_children.hpp"

namespace tenure::flow {

using detail::ChildBase;
using detail::Operation;
using detail::OpKind;

// In the transaction of this turn.
void Instance::send(const Message& message, Turn& turn) {
  turn.txn.writes.push_back(Write::append(
      keys::inbox(core_.partition_of(message.workflow), turn.messages++), encode(message)));
}

// The turn that asked for them is committed.
void Instance::start_children(Turn& turn) {
  for (const OpKey& key : turn.children) {
    const Operation* const operation = machine_ ? machine_->find(key) : nullptr;
    if (operation == nullptr || operation->kind() != OpKind::child) continue;
    const auto& child = static_cast<const ChildBase&>(*operation);  // NOLINT: of that kind.
    if (child.started()) continue;                                  // The log says so.
    core_.post([&core = core_, start = ChildStart{.parent = id_,
                                                  .root = machine_->tree(),
                                                  .key = key,
                                                  .reign = reign_,
                                                  .record = record_revision_,
                                                  .id = child.child_id(),
                                                  .type = child.name(),
                                                  .input = child.input(),
                                                  .deadline = child.deadline(),
                                                  .tags = child.options().tags}] {
      core.start_child(start);
    });
  }
}

void Instance::handle_child(const Event::Child& event, Turn& turn) {
  const Operation* const operation = machine_->find(event.key);
  if (operation == nullptr || operation->kind() != OpKind::child) return;  // It has ended.
  const auto& child = static_cast<const ChildBase&>(*operation);           // NOLINT: of that kind.
  if (child.started()) return;
  append_for(child, event.started ? EntryKind::child_started : EntryKind::child_refused, 0,
             event.started ? Codec<std::string>::encode(child.child_id()) : event.value, turn);
  // A cancellation that came before the start had nobody to tell.
  const Operation* const still = machine_->find(event.key);
  if (still != nullptr && still->cancel_requested()) {
    cancel_child(static_cast<const ChildBase&>(*still), turn);  // NOLINT: of that kind.
  }
}

void Instance::handle_child_ended(const Message& message, Turn& turn) {
  const std::optional<EndedChild> ended = parse_child_ended(message);
  if (!ended) return;
  const detail::ChildState* const child = machine_->child(ended->key);
  if (child == nullptr || child->ended || child->id != ended->end.id) return;
  append(detail::ChildEnd::entry(ended->key, ended->end), turn);
}

// The operation stays until the child has ended.
void Instance::cancel_child(const ChildBase& child, Turn& turn) {
  if (!child.awaited()) return;
  const detail::ChildState* const state = machine_->child(child.key());
  if (state == nullptr) return;
  if (const std::optional<Message> message = parent_closed(*state, id_)) send(*message, turn);
}

// It has ended: its parent gets the result, its children what their options say.
void Instance::tell_family(const Record& ended, Turn& turn) {
  if (const std::optional<ParentLink> parent = parse_parent(ended.parent)) {
    send(child_ended(*parent, {.id = id_, .state = ended.state, .value = ended.result}), turn);
  }
  tell_children(turn);
}

void Instance::tell_children(Turn& turn) {
  machine_->each_child([&](const detail::ChildState& child) {
    if (const std::optional<Message> message = parent_closed(child, id_)) send(*message, turn);
  });
}

}  // namespace tenure::flow
