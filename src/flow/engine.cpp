// The engine as its users see it.
#include <future>

#include "flow/core.hpp"
#include "tenure/flow.hpp"

namespace tenure {

Engine::Engine(std::shared_ptr<Store> store, EngineOptions options)
    : core_(std::make_shared<flow::Core>(std::move(store), std::move(options))) {}

Engine::~Engine() { core_->drain(true); }

void Engine::add(detail::Definition definition) { core_->define(std::move(definition)); }

detail::ErrorTypes& Engine::errors() { return core_->errors(); }

namespace {

// Waits for the answer of a call that gives it to a function.
template <class Call>
Run wait_for_start(Call call) {
  std::promise<Run> promise;
  std::future<Run> future = promise.get_future();
  call([&promise](std::optional<Run> run, const std::exception_ptr& error) {
    if (error) {
      promise.set_exception(error);
    } else {
      promise.set_value(*std::move(run));
    }
  });
  return future.get();
}

}  // namespace

Run Engine::begin(std::string_view type, std::string input, StartOptions options) {
  return wait_for_start([&](Started started) {
    core_->start(type, std::move(input), std::move(options), std::move(started));
  });
}

Run Engine::begin_or_signal(std::string_view type, std::string input, StartOptions options,
                            Signal signal) {
  return wait_for_start([&](Started started) {
    core_->start_or_signal(type, std::move(input), std::move(options), std::move(signal),
                           std::move(started));
  });
}

void Engine::begin_or_signal_then(std::string_view type, std::string input, StartOptions options,
                                  Signal signal, Started started) {
  core_->start_or_signal(type, std::move(input), std::move(options), std::move(signal),
                         std::move(started));
}

void Engine::begin_then(std::string_view type, std::string input, StartOptions options,
                        Started started) {
  core_->start(type, std::move(input), std::move(options), std::move(started));
}

Run Engine::run(const std::string& id) {
  static_cast<void>(core_->info(id));
  return {core_, id};
}

void Engine::send_signal(const std::string& id, std::string_view name, std::string value,
                         std::string_view message_id) {
  core_->send(id,
              {.kind = flow::Message::Kind::signal,
               .workflow = {},
               .name = std::string{name},
               .value = std::move(value)},
              message_id);
}

void Engine::cancel(const std::string& id) {
  core_->send(id, {.kind = flow::Message::Kind::cancel, .workflow = {}, .name = {}, .value = {}},
              {});
}

void Engine::terminate(const std::string& id, std::string_view reason) {
  core_->send(id,
              {.kind = flow::Message::Kind::terminate,
               .workflow = {},
               .name = {},
               .value = reason.empty() ? "it was terminated" : std::string{reason}},
              {});
}

std::vector<FlowInfo> Engine::list(const FlowFilter& filter) { return core_->list(filter); }

std::vector<HistoryEntry> Engine::history(const std::string& id, std::uint32_t from,
                                          std::size_t limit) {
  return core_->history(id, from, limit);
}

// NOLINTNEXTLINE(bugprone-easily-swappable-parameters): as query() has them.
std::string Engine::ask(const std::string& id, const std::string& name,
                        const std::string& arguments) {
  return core_->query(id, name, arguments);
}
FlowHistory Engine::export_history(const std::string& id) { return core_->export_history(id); }
ReplayReport Engine::replay(const FlowHistory& history) const { return core_->replay(history); }

std::size_t Engine::recover_all() { return core_->recover_all(); }
void Engine::drain() { core_->drain(false); }
std::size_t Engine::resident() const { return core_->resident(); }
std::optional<Instant> Engine::next_timer() const { return core_->next_timer(); }

FlowInfo Run::info() const { return core_->info(id_); }

void Run::then(std::function<void(const FlowInfo&)> done) const {
  core_->when_ended(id_, std::move(done));
}

std::string Run::wait() const {
  auto promise = std::make_shared<std::promise<FlowInfo>>();
  std::future<FlowInfo> future = promise->get_future();
  core_->when_ended(id_, [promise](const FlowInfo& info) { promise->set_value(info); });
  promise.reset();
  FlowInfo info;
  try {
    info = future.get();
  } catch (const std::future_error&) {
    throw Closed("the engine was drained before workflow '" + id_ + "' ended");
  }
  if (info.state != FlowState::completed) throw WorkflowFailed(id_, info.state, info.error);
  return info.result;
}

}  // namespace tenure
