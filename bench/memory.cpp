// No rival: the bar is how much memory may remain. Each figure is measured in its own process,
// after a few locks have allocated what every space has.
#include <algorithm>
#include <cstddef>
#include <random>
#include <vector>

#include "bench/names.hpp"
#include "bench/program.hpp"
#include "bench/questions.hpp"
#include "tenure/hold.hpp"
#include "tenure/space.hpp"

namespace tenure::bench {
namespace {

constexpr double megabyte = 1024.0 * 1024.0;
constexpr std::size_t warm_up = 1'000;

void one_after_the_other(const Space& space, std::size_t from, std::size_t to) {
  for (std::size_t i = from; i < to; ++i) const Hold hold = space.lock(book(i));
}

double megabytes_since(double before) { return (resident_bytes() - before) / megabyte; }

std::vector<double> passing(std::size_t count) {
  const Space space = open("local:");
  one_after_the_other(space, 0, warm_up);
  const double before = resident_bytes();
  one_after_the_other(space, warm_up, warm_up + count);
  return {megabytes_since(before)};
}

// The memory that remains, and its maximum.
std::vector<double> all_at_once(std::size_t count, bool shuffled) {
  const Space space = open("local:");
  one_after_the_other(space, 0, warm_up);
  std::vector<Hold> holds(count);  // Touched before, so that it does not count.
  const double before = resident_bytes();
  for (std::size_t i = 0; i < count; ++i) holds[i] = space.lock(book(i));
  const double most = megabytes_since(before);
  if (shuffled) std::ranges::shuffle(holds, std::mt19937_64{1});
  for (Hold& hold : holds) hold.release();
  return {megabytes_since(before), most};
}

}  // namespace

void ask_memory(Report& report) {
  const std::size_t count = report.effort().of(1'000'000, 5'000);
  const auto passed = in_a_process([=] { return passing(count); });
  report.figure("1,000,000 paths in turn: growth", passed.at(0), "MB", at_most(1));
  const auto ordered = in_a_process([=] { return all_at_once(count, false); });
  report.figure("1,000,000 held at once", ordered.at(1), "MB");
  report.figure("released in order: kept", ordered.at(0), "MB", at_most(5));
  const auto shuffled = in_a_process([=] { return all_at_once(count, true); });
  report.figure("released in random order: kept", shuffled.at(0), "MB", at_most(5));
}

}  // namespace tenure::bench
