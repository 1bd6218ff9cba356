// Starts and ends of workflows under a concurrency limit.
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "bench/flow/questions.hpp"
#include "bench/flow/runs.hpp"
#include "bench/stored/questions.hpp"
#include "space/stored/forwarding_store_test.hpp"

namespace tenure::bench::flow {
namespace {

constexpr std::uint32_t limit = 200'000;

Flow<> waits(Context& ctx) { co_await ctx.wait_signal<int>("never"); }
Flow<int> ends(Context& /*ctx*/, std::string /*key*/) { co_return 0; }

EngineOptions relaxed() {
  EngineOptions options;
  options.durability = Durability::relaxed;  // The disk would hide what is compared.
  return options;
}

// An engine with so many runs under way.
class Crowd {
 public:
  explicit Crowd(std::size_t running) : engine_(store(sqlite_url("admission")), relaxed()) {
    engine_.define("waits", waits, {.concurrency = {.max = limit}});
    start_many(engine_, "waits", running);
  }
  // Nanoseconds of a start and an end.
  double start_and_end(std::size_t count) {
    const auto start = std::chrono::steady_clock::now();
    for (std::size_t i = 0; i < count; ++i) {
      const Run run = engine_.start("waits");
      engine_.terminate(run.id());
      try {
        run.result();
      } catch (const WorkflowFailed&) {
        continue;
      }
    }
    return nanoseconds_since(start) / static_cast<double>(count);
  }

 private:
  Engine engine_;
};

// Counts transactions that were refused, and so are tried again.
class Refusals final : public tenure::stored::ForwardingStore {
 public:
  explicit Refusals(std::shared_ptr<Store> store)
      : ForwardingStore(store), store_(std::move(store)) {}
  void apply_then(Txn txn, Posted done) noexcept override {
    store_->apply_then(
        std::move(txn),
        [this, done = std::move(done)](const Outcome& outcome, const std::exception_ptr& error) {
          if (!error && !outcome.committed) ++count_;
          done(outcome, error);
        });
  }
  [[nodiscard]] std::size_t count() const noexcept { return count_.load(); }

 private:
  std::shared_ptr<Store> store_;
  std::atomic<std::size_t> count_{0};
};

// Refused starts and ends of so many runs, 50 at a time, of `keys` keys.
std::size_t refused(std::size_t runs, std::size_t keys) {
  const auto counted = std::make_shared<Refusals>(store(sqlite_url("keys")));
  Engine engine{counted, relaxed()};
  engine.define("ends", ends,
                {.concurrency = {.max = limit, .key = [](const std::string& key) { return key; }}});
  std::atomic<std::size_t> next{0};
  in_flight(runs, 50, [&](const std::function<void()>& done) {
    engine.start_then(
        [done](const std::optional<Run>& run, const std::exception_ptr& error) {
          if (error) std::terminate();
          run->then([done](const FlowInfo& /*info*/) { done(); });
        },
        {}, "ends", "customer-" + std::to_string(next++ % keys));
  });
  return counted->count();
}

}  // namespace

void ask_admission(Report& report) {
  Crowd few{10};
  Crowd many{report.effort().of(100'000, 100)};
  const std::size_t count = report.effort().of(100, 2);
  few.start_and_end(count);
  many.start_and_end(count);
  Race race{report.effort()};
  const auto of_few = race.add_round([&] { return few.start_and_end(count); });
  const auto of_many = race.add_round([&] { return many.start_and_end(count); });
  race.run(30);
  report.compare("start and end, 100,000 running", {"", stored::in_us(race[of_many]), "us"},
                 {"10 running", stored::in_us(race[of_few]), "us"}, at_most(1.2));
  const std::size_t runs = report.effort().of(2'000, 100);
  report.figure("refused, 50 at a time, 50 keys", static_cast<double>(refused(runs, 50)), "",
                at_most(0));
  report.figure("refused, 50 at a time, one key", static_cast<double>(refused(runs, 1)), "",
                at_most(0));
}

}  // namespace tenure::bench::flow
