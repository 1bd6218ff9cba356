// updates.hpp: what is stored of an update: the key of its message id has its outcome as the value.
//
// The sender's transaction puts that key and the message. The owner of the workflow changes its
// value in the transaction that accepts or rejects the update, and in that of the turn in which the
// handler ends. It is removed with the workflow.
//
//   value        | state
//   -------------+-----------------------------------
//   empty        | sent
//   a            | accepted
//   r ERROR      | rejected: an ErrorInfo's text
//   d RESULT     | completed
//   f ERROR      | failed: an ErrorInfo's text
//
// Thread safety: pure functions; those that take a store as the store.
#pragma once

#include <string>
#include <string_view>

#include "flow/keys.hpp"
#include "tenure/flow_update.hpp"
#include "tenure/store.hpp"

namespace tenure::flow {

struct UpdateOutcome {
  UpdateState state = UpdateState::sent;
  std::string value;            // The result, or an ErrorInfo's text.
  bool workflow_ended = false;  // And does nothing with it any more.
  Revision seen;                // Of the store, when it was read.
};
[[nodiscard]] std::string encode(UpdateState state, std::string_view value);
// Throws Error where the bytes are none of the above.
[[nodiscard]] UpdateOutcome decode_outcome(std::string_view bytes);

[[nodiscard]] std::string update_key(keys::Partition partition, std::string_view workflow,
                                     std::string_view update);
// Throws NoSuchWorkflow where there is no such workflow or update.
[[nodiscard]] UpdateOutcome read_outcome(Store& store, keys::Partition partition,
                                         const std::string& workflow, const std::string& update);

}  // namespace tenure::flow
