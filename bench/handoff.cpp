// Rivals: the same key with 100 waiting; and lock + release in a map of mutexes, a cost that no
// change of ours affects.
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>

#include "bench/names.hpp"
#include "bench/program.hpp"
#include "bench/questions.hpp"
#include "bench/ring.hpp"
#include "bench/rivals.hpp"
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
  MapOfMutexes map;
  const std::string key = "book";
  Ring few{space, book(1), 100};
  Ring many{space, book(2), report.effort().of(8'000, 400)};

  Race race{report.effort()};
  const auto short_queue = race.add(turn(few));
  const auto long_queue = race.add(turn(many));
  const auto mutexes = race.add([&](std::uint64_t n) {
    for (; n > 0; --n) const std::scoped_lock lock{map.at(key)};
  });
  race.run();
  report.compare("hand-off, 8,000 waiting", {"", race[long_queue]},
                 {"with 100 waiting", race[short_queue]}, at_most(1.2));
  report.compare("hand-off, 100 waiting", {"", race[short_queue]},
                 {"map, lock + release", race[mutexes]}, at_most(4.2));
}

}  // namespace tenure::bench
