// Three access levels of one graph: pulls run together, observers run together, and an exclusive
// operation runs alone. The table is what happened when each level met each other one.
#include <array>
#include <cstddef>
#include <future>
#include <iomanip>
#include <iostream>
#include <thread>

#include "examples/watch.hpp"
#include "tenure/tenure.hpp"

namespace {

const tenure::Name gate{"incremental-graph-operations"};
const tenure::Name activity{"incremental-graph-activity"};

enum class Level : std::size_t { exclusive, pull, observe };
constexpr std::array names = {"exclusive", "pull", "observe"};

// Members of one group run together, so the group "exclusive" needs the gate to keep its own
// members apart. Both claims are one request: there is no order of acquisition to get wrong.
// (A plain claim on `activity`, without a group and without a gate, would do the same.)
tenure::Hold enter(const tenure::Space& space, Level level) {
  switch (level) {
    case Level::exclusive: return space.lock({gate, activity.group("exclusive")});
    case Level::pull: return space.lock(activity.group("pull"));
    case Level::observe: break;
  }
  return space.lock(activity.group("observe"));
}

// Lets `second` come while `first` is in, and tells whether both were in at once.
bool run_together(const tenure::Space& space, Level first, Level second) {
  tenure::Hold in = enter(space, first);
  std::promise<void> seen;
  std::jthread other{[&] {
    const tenure::Hold also_in = enter(space, second);
    seen.get_future().wait();
  }};
  while (space.inspect().size() < 2) std::this_thread::yield();
  const bool together = example::waiting(space) == 0;
  in.release();
  seen.set_value();
  return together;
}

}  // namespace

int main() {
  const tenure::Space space = tenure::open("local:");
  constexpr std::array levels = {Level::exclusive, Level::pull, Level::observe};
  std::cout << std::left << std::setw(9) << "" << std::right;
  for (const auto* name : names) std::cout << std::setw(12) << name;
  std::cout << '\n';
  for (const Level first : levels) {
    std::cout << std::left << std::setw(9) << names.at(static_cast<std::size_t>(first))
              << std::right;
    for (const Level second : levels) {
      std::cout << std::setw(12) << (run_together(space, first, second) ? "together" : "waits");
    }
    std::cout << '\n';
  }
}
