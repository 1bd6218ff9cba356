// start_or_signal: a workflow that is started with a signal, or the one that runs gets it.
#include "flow/core.hpp"

namespace tenure::flow {

struct Core::SignalCall {
  std::string type;
  std::string input;
  StartOptions options;
  Signal signal;
  Engine::Started started;
  std::uint32_t tries = 0;
};

namespace {

constexpr std::uint32_t max_signal_tries =
    1000;  // A workflow of that id begins and is removed meanwhile.

Message signal_message(const Signal& signal) {
  return {.kind = Message::Kind::signal,
          .workflow = {},
          .name = signal.name(),
          .value = signal.value()};
}

}  // namespace

void Core::start_or_signal(std::string_view type, std::string input, StartOptions options,
                           Signal signal, Engine::Started started) {
  begin();
  static_cast<void>(check_start(type, input));
  if (options.id.empty()) {
    throw BadRequest("start_or_signal needs the id of the workflow: set StartOptions::id");
  }
  if (!options.idempotency_key.empty()) {
    throw BadRequest(
        "start_or_signal takes no idempotency key: the id and the signal's message id do that");
  }
  try_start_or_signal(std::make_shared<SignalCall>(SignalCall{.type = std::string{type},
                                                              .input = std::move(input),
                                                              .options = std::move(options),
                                                              .signal = std::move(signal),
                                                              .started = std::move(started)}));
}

// Each way is one transaction. First the signal: a workflow that runs may have the last place.
void Core::try_start_or_signal(const std::shared_ptr<SignalCall>& call) {
  const std::string& id = call->options.id;
  bool found = true;
  try {
    send(id, signal_message(call->signal), call->signal.message_id());
  } catch (const NoSuchWorkflow&) {
    found = false;
  }
  if (found) {
    call->started(Run{shared_from_this(), id}, nullptr);
    return;
  }
  const auto again = [self = shared_from_this(), call](const Entry& /*record*/) {
    self->post([self, call] {
      try {
        if (++call->tries >= max_signal_tries) {
          throw StoreError("workflow '" + call->options.id +
                           "' was neither started nor signalled: " + "gave up after " +
                           std::to_string(max_signal_tries) +
                           " conflicting writes; try again later");
        }
        self->try_start_or_signal(call);
      } catch (...) {
        call->started(std::nullopt, std::current_exception());
      }
    });
  };
  start(call->type, call->input, call->options, call->started,
        {.signal = signal_message(call->signal),
         .message_id = call->signal.message_id(),
         .exists = again});
}

}  // namespace tenure::flow
