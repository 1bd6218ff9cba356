// Rival: the same key with 100 waiting.
#include <cstddef>
#include <cstdint>

#include "bench/names.hpp"
#include "bench/program.hpp"
#include "bench/questions.hpp"
#include "bench/ring.hpp"
#include "tenure/space.hpp"

namespace tenure::bench {
namespace {

Race::Work turn(Ring& ring) {
  return [&ring](std::uint64_t handoffs) { ring.turn(handoffs); };
}

}  // namespace

void ask_handoff(Report& report) {
  pin_to_core(0);
  const Space space = open("local:");
  Ring few{space, book(1), 100};
  Ring many{space, book(2), report.effort().of(8'000, 400)};

  Race race{report.effort()};
  const auto short_queue = race.add(turn(few));
  const auto long_queue = race.add(turn(many));
  race.run();
  report.compare("hand-off, 8,000 waiting", {"", race[long_queue]},
                 {"with 100 waiting", race[short_queue]}, at_most(1.2));
}

}  // namespace tenure::bench
