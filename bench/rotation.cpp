// Rival: one key, in the same kind of space. The map of mutexes, which keeps every key for ever,
// runs the same rotation for comparison.
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "bench/names.hpp"
#include "bench/program.hpp"
#include "bench/questions.hpp"
#include "bench/rivals.hpp"
#include "tenure/claim.hpp"
#include "tenure/hold.hpp"
#include "tenure/path.hpp"
#include "tenure/space.hpp"

namespace tenure::bench {
namespace {

constexpr std::size_t keys = 2'048;

// Calls lock(i) with i cycling below `count`; one cycle runs before the measurement.
template <class Lock>
Race::Work rotate(std::size_t count, Lock lock) {
  for (std::size_t i = 0; i < count; ++i) lock(i);
  return [count, lock, at = std::size_t{0}](std::uint64_t operations) mutable {
    for (std::uint64_t i = 0; i < operations; ++i) {
      lock(at);
      if (++at == count) at = 0;
    }
  };
}

Race::Work rotate(const Space& space, const std::vector<Claim>& claims) {
  return rotate(claims.size(), [&](std::size_t i) { const Hold hold = space.lock(claims[i]); });
}

}  // namespace

void ask_rotation(Report& report) {
  pin_to_core(0);
  std::vector<Claim> flat;
  std::vector<Claim> children;
  std::vector<std::string> strings;
  for (std::size_t i = 0; i < keys; ++i) {
    flat.emplace_back(Path::of(i));
    children.emplace_back(book(i));
    strings.push_back(std::to_string(i));
  }
  const std::vector<Claim> one_flat{flat[0]};
  const std::vector<Claim> one_child{children[0]};
  const Space space = open("local:");
  const Space below = open("local:");
  MapOfMutexes map;
  const auto lock_string = [&](std::size_t i) { const std::scoped_lock lock{map.at(strings[i])}; };

  Race race{report.effort()};
  const auto many = race.add(rotate(space, flat));
  const auto one = race.add(rotate(space, one_flat));
  const auto many_children = race.add(rotate(below, children));
  const auto child = race.add(rotate(below, one_child));
  const auto map_many = race.add(rotate(keys, lock_string));
  const auto map_one = race.add(rotate(1, lock_string));
  race.run();
  report.compare("2,048 flat keys", {"", race[many]}, {"one key", race[one]}, at_most(2.0));
  report.compare("2,048 books", {"", race[many_children]}, {"one book", race[child]});
  report.compare("map of mutexes: 2,048 keys", {"", race[map_many]}, {"one key", race[map_one]});
  report.compare("2,048 flat keys", {"", race[many]}, {"map, 2,048 keys", race[map_many]});
}

}  // namespace tenure::bench
