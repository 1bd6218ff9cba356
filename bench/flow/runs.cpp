#include "bench/flow/runs.hpp"

#include <algorithm>
#include <exception>
#include <memory>
#include <optional>

#include "bench/stored/supervise.hpp"

namespace tenure::bench::flow {
namespace {

struct Flight {
  const std::function<void(const std::function<void()>& done)>& begin;
  std::atomic<std::int64_t> left;
  std::atomic<std::size_t> under_way;
  std::promise<void> finished;

  // NOLINTNEXTLINE(misc-no-recursion): a workflow ends on another thread, later.
  void next() {
    begin([this] {
      if (left.fetch_sub(1) > 0) {
        next();
      } else if (under_way.fetch_sub(1) == 1) {
        finished.set_value();
      }
    });
  }
};

}  // namespace

int nothing(int i) { return i; }

Flow<int> ten_steps(Context& ctx) {
  int sum = 0;
  for (int i = 0; i < steps_of_one; ++i) sum += co_await ctx.run("nothing", nothing, i);
  co_return sum;
}

std::string sqlite_url(std::string_view name) {
  return "sqlite:" + stored::scratch_path(name).string();
}

void in_flight(std::size_t count, std::size_t depth,
               const std::function<void(const std::function<void()>& done)>& begin) {
  const std::size_t first = std::min(depth, count);
  Flight flight{.begin = begin,
                .left = static_cast<std::int64_t>(count - first),
                .under_way = first,
                .finished = {}};
  for (std::size_t i = 0; i < first; ++i) flight.next();
  flight.finished.get_future().get();
}

void start_many(Engine& engine, std::string_view type, std::size_t count) {
  constexpr std::size_t depth = 1000;
  in_flight(count, depth, [&](const std::function<void()>& done) {
    engine.start_then(
        [done](const std::optional<Run>& /*run*/, const std::exception_ptr& error) {
          if (error) std::terminate();
          done();
        },
        {}, type);
  });
}

Runs::Runs(const std::string& url, std::size_t depth) : engine_(store(url)), depth_(depth) {
  engine_.define("ten-steps", ten_steps);
}

double Runs::run(std::size_t workflows) {
  const auto start = std::chrono::steady_clock::now();
  in_flight(workflows, depth_, [this](const std::function<void()>& done) {
    engine_.start_then(
        [done](const std::optional<Run>& run, const std::exception_ptr& error) {
          if (error) std::terminate();
          run->then([done](const FlowInfo& info) {
            if (info.result != "45") std::terminate();
            done();
          });
        },
        {}, "ten-steps");
  });
  return nanoseconds_since(start) / static_cast<double>(workflows * steps_of_one);
}

}  // namespace tenure::bench::flow
