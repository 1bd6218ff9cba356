// Rivals: one claim of the same kind, in the same space; one permit instead of three.
#include <array>
#include <cstdint>
#include <span>

#include "bench/names.hpp"
#include "bench/program.hpp"
#include "bench/questions.hpp"
#include "tenure/claim.hpp"
#include "tenure/hold.hpp"
#include "tenure/space.hpp"

namespace tenure::bench {

void ask_claims(Report& report) {
  pin_to_core(0);
  const std::array<Claim, 4> claims{book(1), book(2), film(1), film(2)};
  const Space space = open("local:");
  const auto lock_first = [&](std::size_t count) {
    return [&space, what = std::span{claims}.first(count)](std::uint64_t n) {
      for (; n > 0; --n) const Hold hold = space.lock(Request{what});
    };
  };
  Race race{report.effort()};
  const auto one = race.add(lock_first(1));
  const auto two = race.add(lock_first(2));
  const auto four = race.add(lock_first(4));
  const auto lock_permits = [&](std::uint32_t weight) {
    return [&space, claim = book.permits(10).take(weight)](std::uint64_t n) {
      for (; n > 0; --n) const Hold hold = space.lock(claim);
    };
  };
  const auto one_permit = race.add(lock_permits(1));
  const auto three_permits = race.add(lock_permits(3));
  race.run();
  const Report::Side rival{.name = "one claim", .samples = race[one]};
  report.compare("two claims", {"", race[two]}, rival, at_most(5));
  report.compare("four claims", {"", race[four]}, rival, at_most(8));
  report.compare("three of ten permits", {"", race[three_permits]},
                 {"one permit", race[one_permit]}, at_most(1.2));
}

}  // namespace tenure::bench
