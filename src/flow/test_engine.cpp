#include <atomic>
#include <deque>

#include "base/annotations.hpp"
#include "base/mutex.hpp"
#include "tenure/detail/saturating.hpp"
#include "tenure/flow_test.hpp"

namespace tenure::test {

// Runs jobs when it is told to, on the thread that tells.
class Loop final : public Executor {
 public:
  void post(std::function<void()> job) override {
    const base::Mutex::Scoped lock{mutex_};
    jobs_.push_back(std::move(job));
  }
  bool run_one() {
    std::function<void()> job;
    {
      const base::Mutex::Scoped lock{mutex_};
      if (jobs_.empty()) return false;
      job = std::move(jobs_.front());
      jobs_.pop_front();
    }
    job();
    return true;
  }
  void drop() {
    std::deque<std::function<void()>> jobs;
    const base::Mutex::Scoped lock{mutex_};
    jobs.swap(jobs_);
  }

 private:
  base::Mutex mutex_;
  std::deque<std::function<void()>> jobs_ TENURE_GUARDED_BY(mutex_);
};

// The store as one process sees it. The process can die at any of its writes; afterwards nothing
// that it does has an effect. Threads of the lock space use it too.
class Mortal final : public Store {
 public:
  Mortal(std::shared_ptr<MemoryStore> inside, std::shared_ptr<Loop> loop,
         std::shared_ptr<std::atomic<std::size_t>> writes)
      : inside_(std::move(inside)), loop_(std::move(loop)), writes_(std::move(writes)) {}

  void die_at(std::size_t write, bool after) {
    const base::Mutex::Scoped lock{mutex_};
    at_ = write;
    after_ = after;
  }
  void die() {
    std::vector<std::string> sessions;
    {
      const base::Mutex::Scoped lock{mutex_};
      dead_ = true;
      sessions = sessions_;
    }
    for (const std::string& id : sessions) {
      if (inside_->alive(id)) inside_->kill_session(id);
    }
  }
  [[nodiscard]] bool dead() const noexcept { return dead_; }

  Outcome apply(const Txn& txn) override {
    if (!txn.writes.empty() && !dead_) {
      ++*writes_;
      bool last = false;
      bool after = false;
      {
        const base::Mutex::Scoped lock{mutex_};
        last = at_ == 1;
        after = after_;
        if (at_ > 0) --at_;
      }
      if (last) {
        if (after) static_cast<void>(inside_->apply(txn));
        die();
      }
    }
    if (!dead_) return inside_->apply(txn);
    Outcome nothing;
    nothing.committed = true;
    nothing.reads.resize(txn.reads.size());
    return nothing;
  }
  void post(Txn txn, Posted done) noexcept override {
    const Outcome outcome = apply(txn);
    if (done) done(outcome, nullptr);
  }
  void apply_then(Txn txn, Posted done) noexcept override {
    const bool lived = !dead_;
    Outcome outcome;
    std::exception_ptr error;
    try {
      outcome = apply(txn);
    } catch (...) {
      error = std::current_exception();
    }
    if (!lived || dead_) return;  // Nobody is there to be told.
    loop_->post([done = std::move(done), outcome = std::move(outcome), error] {
      if (done) done(outcome, error);
    });
  }
  [[nodiscard]] std::unique_ptr<Watch> watch(WatchFor what, Notice notice) override {
    return inside_->watch(std::move(what), std::move(notice));
  }
  [[nodiscard]] std::unique_ptr<Session> open_session(const SessionOptions& options) override {
    std::unique_ptr<Session> session = inside_->open_session(options);
    const base::Mutex::Scoped lock{mutex_};
    sessions_.push_back(session->id());
    return session;
  }
  [[nodiscard]] bool alive(std::string_view session) override { return inside_->alive(session); }
  [[nodiscard]] Instant now() override { return inside_->now(); }
  [[nodiscard]] Instant latest_now() noexcept override { return inside_->latest_now(); }
  [[nodiscard]] std::vector<Fact> facts() override { return inside_->facts(); }

 private:
  const std::shared_ptr<MemoryStore> inside_;
  const std::shared_ptr<Loop> loop_;
  const std::shared_ptr<std::atomic<std::size_t>> writes_;
  std::atomic<bool> dead_ = false;
  base::Mutex mutex_;
  std::size_t at_ TENURE_GUARDED_BY(mutex_) = 0;
  bool after_ TENURE_GUARDED_BY(mutex_) = false;
  std::vector<std::string> sessions_ TENURE_GUARDED_BY(mutex_);
};

class World {
 public:
  EngineOptions options;
  std::shared_ptr<MemoryStore> store =
      std::make_shared<MemoryStore>(MemoryStore::Clock::virtual_time);
  std::vector<std::function<void(tenure::Engine&)>> setups;
  std::map<std::string, std::function<std::string(const std::string&)>> mocks;
  std::map<std::string, std::string> problems;
  std::shared_ptr<std::atomic<std::size_t>> writes = std::make_shared<std::atomic<std::size_t>>(0);
  std::uint64_t seed = 1;

  std::shared_ptr<Loop> loop;
  std::shared_ptr<Mortal> mortal;
  std::unique_ptr<tenure::Engine> engine;

  void make_engine() {
    loop = std::make_shared<Loop>();
    mortal = std::make_shared<Mortal>(store, loop, writes);
    EngineOptions all = options;
    all.executor = loop;
    if (!all.random) {
      all.random = [this] { return seed = (seed * 6364136223846793005U) + 1442695040888963407U; };
    }
    all.on_problem = [this](const std::string& id, const std::string& message) {
      problems[id] = message;
      if (options.on_problem) options.on_problem(id, message);
    };
    // NOLINTNEXTLINE(bugprone-easily-swappable-parameters): EngineOptions says so.
    all.instead = [this](const std::string& step, const std::string& arguments,
                         StepContext& /*context*/) -> std::optional<std::string> {
      const auto at = mocks.find(step);
      if (at == mocks.end()) return std::nullopt;
      return at->second(arguments);
    };
    engine = std::make_unique<tenure::Engine>(mortal, std::move(all));
    for (const auto& setup : setups) setup(*engine);
  }

  void settle() {
    while (!mortal->dead()) {
      bool ran = false;
      while (!mortal->dead() && loop->run_one()) ran = true;
      if (mortal->dead()) break;
      store->settle();
      if (!loop->run_one() && !ran) return;
    }
    end_process();
  }

  void end_process() {
    mortal->die();
    loop->drop();
    engine.reset();
    while (loop->run_one()) {  // Waits that the end of the space resumed.
    }
  }
};

Engine::Engine(EngineOptions options) : world_(std::make_unique<World>()) {
  world_->options = std::move(options);
  world_->make_engine();
}

Engine::~Engine() {
  if (world_->engine) world_->end_process();
}

void Engine::add_mock(const std::string& step, Instead instead) {
  world_->mocks[step] = std::move(instead);
}

void Engine::setup(std::function<void(tenure::Engine&)> definition) {
  if (world_->engine) definition(*world_->engine);
  world_->setups.push_back(std::move(definition));
}

Run Engine::started(const std::function<void(tenure::Engine&, tenure::Engine::Started)>& start) {
  std::optional<std::string> id;
  std::exception_ptr failed;
  start(engine(), [&](std::optional<tenure::Run> run, const std::exception_ptr& error) {
    failed = error;
    if (run) id = run->id();
  });
  settle();
  if (failed) std::rethrow_exception(failed);
  return {*this, id.value_or("")};
}

void Engine::cancel(const std::string& id) {
  engine().cancel(id);
  settle();
}

void Engine::terminate(const std::string& id, std::string_view reason) {
  engine().terminate(id, reason);
  settle();
}

std::vector<HistoryEntry> Engine::history(const std::string& id) { return engine().history(id); }
std::vector<FlowInfo> Engine::list(const FlowFilter& filter) { return engine().list(filter); }

void Engine::advance(std::chrono::nanoseconds by) {
  const Instant end = detail::saturating_add(now(), by);
  settle();
  while (!crashed()) {
    const std::optional<Instant> next = engine().next_timer();
    const Instant stop = next && *next < end ? std::max(*next, now()) : end;
    world_->store->advance(stop - now());
    settle();
    if (stop == end) return;
  }
}

Instant Engine::now() { return world_->store->now(); }
void Engine::settle() {
  if (world_->engine) world_->settle();
}

void Engine::crash() {
  if (world_->engine) world_->end_process();
}

void Engine::recover() {
  if (!crashed()) throw BadRequest("the process has not crashed");
  crash();
  world_->problems.clear();
  world_->make_engine();
  world_->engine->recover_all();
  settle();
}

void Engine::crash_at(std::size_t write, bool after) { world_->mortal->die_at(write, after); }
bool Engine::crashed() const { return world_->engine == nullptr || world_->mortal->dead(); }
std::size_t Engine::writes() const { return *world_->writes; }
MemoryStore& Engine::store() { return *world_->store; }

tenure::Engine& Engine::engine() {
  if (!world_->engine) throw BadRequest("the process has crashed: call recover()");
  return *world_->engine;
}

const std::map<std::string, std::string>& Engine::problems() const { return world_->problems; }

FlowInfo Run::info() const { return engine_->engine().run(id_).info(); }

std::string Run::value() const {
  const FlowInfo all = info();
  if (!is_terminal(all.state)) {
    throw Error("workflow '" + id_ +
                "' has not ended: advance() the clock, or send what it waits "
                "for" +
                (all.problem.empty() ? "" : "; " + all.problem));
  }
  if (all.state != FlowState::completed) throw WorkflowFailed(id_, all.state, all.error);
  return all.result;
}

}  // namespace tenure::test
