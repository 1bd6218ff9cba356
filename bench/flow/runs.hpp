// runs.hpp: workflows of ten steps that do nothing, so many at a time; and starts of many others.
//
// Thread safety: none; one thread measures.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <string_view>

#include "bench/ratio.hpp"
#include "tenure/flow.hpp"

namespace tenure::bench::flow {

inline constexpr int steps_of_one = 10;
inline constexpr std::size_t commits_of_one = steps_of_one + 1;

[[nodiscard]] inline double nanoseconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - start).count();
}

// The step of most questions.
[[nodiscard]] int nothing(int i);
Flow<int> ten_steps(Context& ctx);

// A store in a file of its own, on the disk.
[[nodiscard]] std::string sqlite_url(std::string_view name);

// Calls `begin(done)` `count` times, at most `depth` of them under way: each calls `done` once when
// it has ended, on any thread. Returns when all have.
void in_flight(std::size_t count, std::size_t depth,
               const std::function<void(const std::function<void()>& done)>& begin);

// Starts so many without arguments; returns when all starts are stored.
void start_many(Engine& engine, std::string_view type, std::size_t count);

// An engine that runs workflows of ten steps; each end starts the next.
class Runs {
 public:
  Runs(const std::string& url, std::size_t depth);
  // Nanoseconds per step.
  double run(std::size_t workflows);

 private:
  Engine engine_;
  const std::size_t depth_;
};

}  // namespace tenure::bench::flow
