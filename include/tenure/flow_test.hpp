// flow_test.hpp: an engine for tests of workflows: a store in memory, a clock that the test moves,
// steps that can be replaced, and a process that can be killed.
//
//   tenure::test::Engine engine;
//   engine.define("reminder", reminder);
//   engine.mock("send-mail", [&](std::string to) { mails.push_back(to); });
//   auto run = engine.start("reminder", "ann");
//   engine.crash();                       // As if the process had died here.
//   engine.recover();
//   engine.advance(std::chrono::days{30});  // Takes a millisecond.
//   EXPECT_EQ(run.result<int>(), 3);
//
// Everything runs on the calling thread, inside these calls, in the same order each time: a call
// returns when nothing is left to do before the clock is moved. With EngineOptions::resident = 0
// every workflow that waits is dropped from memory and replayed.
//
// Thread safety: none.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "tenure/flow.hpp"
#include "tenure/memory_store.hpp"

namespace tenure::test {

class Engine;
class World;  // Store, executor, clock: see src/flow/test_engine.cpp.

// A run that never blocks.
class Run {
 public:
  Run(Engine& engine, std::string id) : engine_(&engine), id_(std::move(id)) {}
  [[nodiscard]] const std::string& id() const noexcept { return id_; }
  [[nodiscard]] FlowInfo info() const;
  [[nodiscard]] bool ended() const { return is_terminal(info().state); }
  // Throws Error where the workflow has not ended, WorkflowFailed where it has no value.
  template <class T = void>
  T result() const {
    const std::string text = value();
    if constexpr (!std::is_void_v<T>) return detail::decode_result<T>(text);
  }

 private:
  [[nodiscard]] std::string value() const;
  Engine* engine_;
  std::string id_;
};

class Engine {
 public:
  // `executor` and `instead` of the options are not used. Few partitions: they cost time to open.
  explicit Engine(EngineOptions options = {.partitions = 4});
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;
  ~Engine();

  template <class F, class... Options>
  void define(const std::string& type, F function, Options... options) {
    setup([=](tenure::Engine& engine) { engine.define(type, function, options...); });
  }
  template <class R, class... A>
  void define(const std::string& type, Flow<R> (*function)(Context&, A...),
              std::type_identity_t<FlowOptions<A...>> options) {
    setup([=](tenure::Engine& engine) { engine.define(type, function, options); });
  }
  template <class E>
  void error_type(const std::string& name) {
    setup([=](tenure::Engine& engine) { engine.error_type<E>(name); });
  }
  // Called instead of the function of every step with this name.
  template <class F>
  void mock(const std::string& step, F function) {
    mock_function(step, std::function{std::move(function)});
  }

  template <class... A>
  Run start(std::string_view type, const A&... arguments) {
    return start(StartOptions{}, type, arguments...);
  }
  template <class... A>
  Run start(StartOptions options, std::string_view type, const A&... arguments) {
    return started([&](tenure::Engine& engine, tenure::Engine::Started done) {
      engine.start_then(std::move(done), std::move(options), type, arguments...);
    });
  }
  template <class... A>
  Run start_or_signal(StartOptions options, Signal signal, std::string_view type,
                      const A&... arguments) {
    return started([&](tenure::Engine& engine, tenure::Engine::Started done) {
      engine.start_or_signal_then(std::move(done), std::move(options), std::move(signal), type,
                                  arguments...);
    });
  }
  template <class T>
  void signal(const std::string& id, std::string_view name, const T& value,
              std::string_view message_id = {}) {
    engine().signal(id, name, value, message_id);
    settle();
  }
  // Throws Error where the handler has not ended.
  template <class R = void, class... A>
  R update(const std::string& id, std::string_view name, const A&... arguments) {
    const Update sent = send_update({}, id, name, arguments...);
    if (sent.state() == UpdateState::sent || sent.state() == UpdateState::accepted) {
      throw Error("update '" + std::string{name} + "' of workflow '" + id + "' has not ended");
    }
    return sent.template result<R>();
  }
  template <class... A>
  Update send_update(UpdateOptions options, const std::string& id, std::string_view name,
                     const A&... arguments) {
    const Update sent = engine().send_update(std::move(options), id, name, arguments...);
    settle();
    return sent;
  }
  void cancel(const std::string& id);
  void terminate(const std::string& id, std::string_view reason = {});
  [[nodiscard]] std::vector<HistoryEntry> history(const std::string& id);
  [[nodiscard]] std::vector<FlowInfo> list(const FlowFilter& filter = {});

  // Moves the clock, from one timer to the next.
  void advance(std::chrono::nanoseconds by);
  [[nodiscard]] Instant now();
  // Does what there is to do without moving the clock. Called by all of the above.
  void settle();

  // The process dies: nothing is written any more, whatever ran is forgotten.
  void crash();
  // A new process. After crash() only; with another set of definitions when they were changed.
  void recover();
  // Dies at the n-th write from now on, before or after it was made; recover() as usual. Calls then
  // return early: crashed() says so.
  void crash_at(std::size_t write, bool after);
  [[nodiscard]] bool crashed() const;
  [[nodiscard]] std::size_t writes() const;  // Since the beginning.

  [[nodiscard]] MemoryStore& store();
  // The engine of the living process. Throws BadRequest after a crash.
  [[nodiscard]] tenure::Engine& engine();
  // What stopped workflows, by id.
  [[nodiscard]] const std::map<std::string, std::string>& problems() const;

 private:
  using Instead = std::function<std::string(const std::string& arguments)>;
  template <class R, class... A>
  void mock_function(const std::string& step, std::function<R(A...)> function) {
    add_mock(step, [function = std::move(function)](const std::string& arguments) {
      auto values = detail::decode_arguments<std::decay_t<A>...>(arguments);
      if constexpr (std::is_void_v<R>) {
        std::apply(function, std::move(values));
        return std::string{"null"};
      } else {
        return detail::encode_result(std::apply(function, std::move(values)));
      }
    });
  }
  void add_mock(const std::string& step, Instead instead);
  void setup(std::function<void(tenure::Engine&)> definition);
  Run started(const std::function<void(tenure::Engine&, tenure::Engine::Started)>& start);

  std::unique_ptr<World> world_;
};

}  // namespace tenure::test
