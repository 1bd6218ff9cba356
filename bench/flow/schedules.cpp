// What starts workflows, and when: schedules, and queues for a place.
#include "bench/flow/questions.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <ctime>
#include <deque>
#include <future>
#include <memory>
#include <string>
#include <thread>

#include "tenure/flow.hpp"
#include "tests/kit/scratch.hpp"

namespace tenure::bench::flow {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

Flow<int> nothing(Context& ctx) {
  static_cast<void>(ctx);
  co_return 0;
}
Flow<> stays(Context& ctx) { co_await ctx.wait_signal<int>("never"); }

std::string url_of(const kit::TemporaryDirectory& directory, std::string_view name) {
  return "sqlite:" + (directory / (std::string{name} + ".db")).string();
}

double since(steady_clock::time_point start) {
  return std::chrono::duration<double, std::nano>(steady_clock::now() - start).count();
}

// Of all threads of this process, in milliseconds.
double cpu_time() {
  timespec time{};
  static_cast<void>(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time));
  return (1e3 * static_cast<double>(time.tv_sec)) + (1e-6 * static_cast<double>(time.tv_nsec));
}

}  // namespace

void ask_idle_schedules(Report& report) {
  const kit::TemporaryDirectory directory;
  EngineOptions options;
  options.durability = Durability::relaxed;
  Engine engine{store(url_of(directory, "idle")), options};
  engine.define("nothing", nothing);
  const std::size_t count = report.effort().of(10'000, 20);
  for (std::size_t i = 0; i < count; ++i) {
    engine.schedule({.id = std::to_string(i), .cron = "0 0 1 1 *", .zone = "Europe/Berlin"},
                    "nothing");
  }
  const auto all_armed = [&] {
    return std::ranges::all_of(engine.schedules(),
                               [](const ScheduleInfo& info) { return info.due.has_value(); });
  };
  while (!all_armed()) std::this_thread::sleep_for(milliseconds{50});
  const milliseconds idle{report.effort().of(5000, 20)};
  std::this_thread::sleep_for(milliseconds{report.effort().of(500, 1)});  // The last messages.
  const double before = cpu_time();
  std::this_thread::sleep_for(idle);
  report.figure("CPU of an idle engine with 10,000 schedules, per second",
                1000 * (cpu_time() - before) / static_cast<double>(idle.count()), "ms", at_most(1));
}

// A backlog of one schedule, one firing after another, and as many starts, one after another.
void ask_firing(Report& report) {
  const kit::TemporaryDirectory directory;
  const std::size_t count = report.effort().of(400, 5);
  const std::size_t rounds = report.effort().of(5, 1);
  Samples starts;
  Samples firings;
  for (std::size_t round = 0; round < rounds; ++round) {
    const std::string url = url_of(directory, std::to_string(round));
    const ScheduleOptions often{
        .id = "often", .every = milliseconds{1}, .overlap = Overlap::allow_all};
    {
      Engine engine{store(url)};
      engine.define("nothing", nothing);
      const auto start = steady_clock::now();
      for (std::size_t i = 0; i < count; ++i) engine.start("nothing");
      starts.push_back(since(start) / static_cast<double>(count));
      engine.schedule(often, "nothing");
    }
    std::this_thread::sleep_for(milliseconds{2 * count});
    Engine engine{store(url)};
    engine.define("nothing", nothing);
    engine.recover_all();
    const std::uint64_t first = engine.schedule_info("often").fired;
    const auto start = steady_clock::now();
    std::uint64_t fired = first;
    while (fired < first + count) {
      std::this_thread::sleep_for(milliseconds{2});
      fired = engine.schedule_info("often").fired;
    }
    firings.push_back(since(start) / static_cast<double>(fired - first));
    engine.remove_schedule("often");
  }
  report.compare("a firing of a schedule", {.name = "firing", .samples = firings},
                 {.name = "start", .samples = starts}, at_most(2));
}

// The run that has the only place ends; the first in line gets it, and another start joins the
// queue: all that with 100 and with 100,000 that wait.
void ask_queue(Report& report) {
  const kit::TemporaryDirectory directory;
  EngineOptions options;
  options.durability = Durability::relaxed;
  Engine engine{store(url_of(directory, "queue")), options};
  engine.define("stays", stays, {.concurrency = {.max = 1, .queue = 200'000}});
  std::deque<std::string> line{engine.start("stays").id()};
  const auto fill = [&](std::size_t length) {
    const std::size_t count = length - std::min(length, line.size() - 1);
    if (count == 0) return;
    std::promise<void> all;
    std::atomic<std::size_t> left{count};
    for (std::size_t i = 0; i < count; ++i) {
      StartOptions start;
      start.id = "w" + std::to_string(line.size());
      line.push_back(start.id);
      engine.start_then(
          [&](const std::optional<Run>& /*run*/, const std::exception_ptr& error) {
            if (error) std::terminate();
            if (left.fetch_sub(1) == 1) all.set_value();
          },
          start, "stays");
    }
    all.get_future().get();
  };
  const auto admit = [&](std::size_t count) {
    const auto start = steady_clock::now();
    for (std::size_t i = 0; i < count; ++i) {
      const tenure::Run run = engine.run(line.front());
      line.pop_front();
      engine.terminate(run.id());
      try {
        run.result();
      } catch (const WorkflowFailed&) {
      }
      line.push_back(engine.start("stays").id());
    }
    return since(start) / static_cast<double>(count);
  };
  const std::size_t rounds = report.effort().of(5, 1);
  Samples few;
  Samples many;
  fill(100);
  for (std::size_t i = 0; i < rounds; ++i) few.push_back(admit(report.effort().of(200, 2)));
  fill(report.effort().of(100'000, 200));
  for (std::size_t i = 0; i < rounds; ++i) many.push_back(admit(report.effort().of(200, 2)));
  report.compare("admission of the next in line", {.name = "100,000 queued", .samples = many},
                 {.name = "100 queued", .samples = few}, at_most(1.2));
}

}  // namespace tenure::bench::flow
