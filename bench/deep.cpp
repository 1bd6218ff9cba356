// Rival: the same lock in a space with one leaf held beside it, so that the ancestors are live in
// both. An implementation that looked at the leaves, or walked a list of them, would be slower
// here.
#include <cstddef>
#include <cstdint>
#include <vector>

#include "bench/program.hpp"
#include "bench/questions.hpp"
#include "tenure/claim.hpp"
#include "tenure/hold.hpp"
#include "tenure/path.hpp"
#include "tenure/space.hpp"

namespace tenure::bench {
namespace {

Path leaf(std::size_t n) { return Path::of("shop", "shelf", "book", "chapter", n); }

std::vector<Hold> hold_leaves(const Space& space, std::size_t count) {
  std::vector<Hold> holds;
  for (std::size_t i = 1; i <= count; ++i) holds.push_back(space.lock(leaf(i)));
  return holds;
}

Race::Work lock_leaf(const Space& space, const Claim& claim) {
  return [&space, &claim](std::uint64_t operations) {
    for (std::uint64_t i = 0; i < operations; ++i) const Hold hold = space.lock(claim);
  };
}

}  // namespace

void ask_deep(Report& report) {
  pin_to_core(0);
  const std::size_t many = report.effort().of(20'000, 500);
  const Claim claim = leaf(0);
  const Space quiet = open("local:");
  const Space busy = open("local:");
  const Space listed = open("local:");
  const auto one = hold_leaves(quiet, 1);
  const auto leaves = hold_leaves(busy, many);
  const auto entries = hold_leaves(listed, many);
  // A request with a named group turns every thin hold of its shard into an entry.
  (void)listed.lock(leaf(0).group("pull"));

  Race race{report.effort()};
  const auto beside_one = race.add(lock_leaf(quiet, claim));
  const auto beside_many = race.add(lock_leaf(busy, claim));
  const auto beside_entries = race.add(lock_leaf(listed, claim));
  race.run();
  const Report::Side rival{.name = "with 1", .samples = race[beside_one]};
  report.compare("5 deep, 20,000 leaves held", {"", race[beside_many]}, rival, at_most(1.2));
  report.compare("the same, after a named group came", {"", race[beside_entries]}, rival);
}

}  // namespace tenure::bench
