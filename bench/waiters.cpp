// No rival: the bar is the memory of one waiter. Frames come from memory that was touched before,
// so all growth belongs to the space.
#include <cstddef>
#include <vector>

#include "bench/names.hpp"
#include "bench/program.hpp"
#include "bench/questions.hpp"
#include "bench/ring.hpp"
#include "tenure/space.hpp"

namespace tenure::bench {
namespace {

constexpr std::size_t max_frame = 1'024;

std::vector<double> wait_together(std::size_t count) {
  FrameArena arena{(count + 2) * max_frame};
  const Space space = open("local:");
  const Ring warm_up{space, book(1), 1};
  const std::size_t frames_before = arena.used();
  const double before = resident_bytes();
  const Ring ring{space, book(2), count - 1};
  const auto waiters = static_cast<double>(count);
  return {(resident_bytes() - before) / waiters,
          static_cast<double>(arena.used() - frames_before) / waiters};
}

}  // namespace

void ask_waiters(Report& report) {
  const std::size_t count = report.effort().of(100'000, 2'000);
  const auto figures = in_a_process([=] { return wait_together(count); });
  report.figure("100,000 waiters on one key, each", figures.at(0), "bytes", at_most(499));
  report.figure("beside a coroutine frame of", figures.at(1), "bytes");
}

}  // namespace tenure::bench
