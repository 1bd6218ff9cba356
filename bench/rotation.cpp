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

constexpr std::size_t few = 2'048;
constexpr std::size_t many = 100'000;  // Far more than a space keeps when they are idle.

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

// The keys of one rotation, and both sides of it.
struct Keys {
  explicit Keys(std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      flat.emplace_back(Path::of(i));
      strings.push_back(std::to_string(i));
    }
  }
  Race::Work lock_ours() { return rotate(space, flat); }
  Race::Work lock_in_map() {
    return rotate(strings.size(),
                  [this](std::size_t i) { const std::scoped_lock lock{map.at(strings[i])}; });
  }

  std::vector<Claim> flat;
  std::vector<std::string> strings;
  Space space = open("local:");
  MapOfMutexes map;
};

}  // namespace

void ask_rotation(Report& report) {
  pin_to_core(0);
  Keys of_few{few};
  Keys of_many{report.effort().of(many, few)};
  std::vector<Claim> children;
  for (std::size_t i = 0; i < few; ++i) children.emplace_back(book(i));
  const std::vector<Claim> one_flat{of_few.flat[0]};
  const std::vector<Claim> one_child{children[0]};
  const Space below = open("local:");
  MapOfMutexes map_built;

  Race race{report.effort()};
  const auto flat = race.add(of_few.lock_ours());
  const auto map_flat = race.add(of_few.lock_in_map());
  const auto one = race.add(rotate(of_few.space, one_flat));
  const auto map_one = race.add(rotate(
      1, [&](std::size_t i) { const std::scoped_lock lock{of_few.map.at(of_few.strings[i])}; }));
  const auto books = race.add(rotate(below, children));
  const auto one_book = race.add(rotate(below, one_child));
  const auto built =
      race.add(rotate(few, [&](std::size_t i) { const Hold hold = below.lock(book(i)); }));
  const auto strings_built = race.add(rotate(few, [&](std::size_t i) {
    const std::scoped_lock lock{map_built.at("book/" + std::to_string(i))};
  }));
  race.run();
  Race large{report.effort()};
  const auto all = large.add(of_many.lock_ours());
  const auto map_all = large.add(of_many.lock_in_map());
  large.run();

  report.compare("2,048 flat keys", {"", race[flat]}, {"one key", race[one]}, at_most(2.0));
  report.compare("2,048 books", {"", race[books]}, {"one book", race[one_book]});
  report.compare("map of mutexes: 2,048 keys", {"", race[map_flat]}, {"one key", race[map_one]});
  report.compare("2,048 flat keys", {"", race[flat]}, {"map, 2,048 keys", race[map_flat]},
                 at_most(1.0));
  report.compare("100,000 flat keys", {"", large[all]}, {"map, 100,000 keys", large[map_all]},
                 at_most(1.0));
  report.compare("2,048 books, path built each time", {"", race[built]},
                 {"map, string built", race[strings_built]}, at_most(1.0));
}

}  // namespace tenure::bench
