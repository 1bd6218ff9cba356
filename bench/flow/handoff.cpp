// Two workflows, in engines of two processes, pass a lock back and forth: from the moment at which
// the holder's step returns to the start of the other one's step. Between them is a synced
// transaction of each. Rivals: one synced transaction; a lock in a slot that is polled once per
// second, as a workflow without locks would do it.
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <semaphore>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>

#include "bench/cluster/players.hpp"
#include "bench/flow/questions.hpp"
#include "bench/flow/runs.hpp"
#include "bench/names.hpp"
#include "bench/stored/sqlite.hpp"
#include "bench/stored/supervise.hpp"
#include "flow/keys.hpp"

namespace tenure::bench::flow {
namespace {

using namespace std::chrono_literals;

// Between a step and the thread that plays. Steps capture nothing. The step takes the times: the
// thread that plays is woken later.
// NOLINTBEGIN(cppcoreguidelines-avoid-non-const-global-variables)
std::binary_semaphore granted{0};
std::binary_semaphore may_release{0};
double granted_at = 0;
std::atomic<double>* released_at = nullptr;
// NOLINTEND(cppcoreguidelines-avoid-non-const-global-variables)
int use() {
  granted_at = stored::now();
  granted.release();
  may_release.acquire();
  released_at->store(stored::now());
  return ::getpid();
}
int where() { return ::getpid(); }

Flow<int> where_it_runs(Context& ctx) { co_return co_await ctx.run("where", where); }

Flow<int> locks(Context& ctx) {
  const FlowHold hold = co_await ctx.lock(book);
  const int process = co_await ctx.run("use", use);
  co_await ctx.release(hold);
  co_return process;
}

Flow<int> polls(Context& ctx) {
  const DurableMutex mutex{{.lease = 1h}};
  const auto slot = ctx.state.workflow<LockRecord>("book");
  while (true) {
    const LockCall call{.holder = ctx.id(), .now = ctx.now()};
    const Acquisition answer = co_await mutex.try_acquire(slot, call);
    if (answer.acquired) break;
    co_await ctx.sleep(1s);
  }
  const int process = co_await ctx.run("use", use);
  const LockCall call{.holder = ctx.id(), .now = ctx.now()};
  co_await mutex.release(slot, call);
  co_return process;
}

// One for a process: its workflows stay in a partition that its engine has, so that they run here.
class HereEngine {
 public:
  explicit HereEngine(const std::string& url) : engine_(store(url)) {
    engine_.define("where", where_it_runs);
    engine_.define("locks", locks);
    engine_.define("polls", polls);
    find_partition();
  }
  Run start(std::string_view type) {
    while (true) {
      std::string id = name("run", next_++);
      if (tenure::flow::keys::partition_of(id, partitions) != partition_) continue;
      return engine_.start({.id = std::move(id)}, type);
    }
  }

 private:
  static constexpr std::uint32_t partitions = 64;
  static std::string name(std::string_view kind, int number) {
    return std::string{kind} + "-" + std::to_string(::getpid()) + "-" + std::to_string(number);
  }
  // The engines have shared the partitions when one stays here for a while.
  void find_partition() {
    int stayed = 0;
    for (int number = 0; stayed < 10; ++number) {
      const std::string id = name("where", number);
      const std::uint32_t partition = tenure::flow::keys::partition_of(id, partitions);
      if (stayed > 0 && partition != partition_) continue;
      const bool here = engine_.start({.id = id}, "where").result<int>() == ::getpid();
      stayed = here ? stayed + 1 : 0;
      partition_ = partition;
      std::this_thread::sleep_for(50ms);
    }
  }

  Engine engine_;
  std::uint32_t partition_ = 0;
  int next_ = 0;
};

class FlowLock final : public stored::Lock {
 public:
  FlowLock(std::shared_ptr<HereEngine> engine, std::string type)
      : engine_(std::move(engine)), type_(std::move(type)) {}
  void acquire() override {
    run_ = std::make_unique<Run>(engine_->start(type_));
    if (!granted.try_acquire_for(1min))
      throw std::runtime_error("no grant, or not in this process");
  }
  [[nodiscard]] double acquired_at() override { return granted_at; }
  void release(std::atomic<double>& at) override {
    released_at = &at;
    release();
  }

 private:
  void release() override { may_release.release(); }

  std::shared_ptr<HereEngine> engine_;
  std::string type_;
  std::unique_ptr<Run> run_;
};

}  // namespace

void ask_handoff(Report& report) {
  const std::string url = sqlite_url("handoff");
  const auto passed = [&](const std::string& type, std::chrono::milliseconds dwell) {
    return cluster::Passed{.make =
                               [url, type] {
                                 static const auto engine = std::make_shared<HereEngine>(url);
                                 return std::make_unique<FlowLock>(engine, type);
                               },
                           .dwell = dwell};
  };
  cluster::Players players{{0, 1}, {passed("locks", 50ms), passed("polls", 537ms)}};
  static_cast<void>(players.round(0, 2));  // Starts the engines.
  stored::SyncedRows rows{stored::scratch_path("loop")};
  Race race{report.effort()};
  const auto ours =
      race.add_round([&] { return spread_of(players.round(0, report.effort().of(10, 2))).median; });
  const auto bare = race.add_round([&] { return rows.put_ns(report.effort().of(50, 5)); });
  race.run(15);
  const Samples polled{spread_of(players.round(1, report.effort().of(10, 1))).median};
  report.compare("hand-off", {"", stored::in_us(race[ours]), "us"},
                 {"synced row", stored::in_us(race[bare]), "us"}, at_most(5));
  report.compare("hand-off", {"", stored::in_us({spread_of(race[ours]).median}), "us"},
                 {"polled every second", stored::in_us(polled), "us"});
}

}  // namespace tenure::bench::flow
