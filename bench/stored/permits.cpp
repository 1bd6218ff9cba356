// No rival: one request that takes three of ten permits, compared with one that takes one.
#include <chrono>
#include <cstdint>

#include "bench/stored/ours.hpp"
#include "bench/stored/questions.hpp"
#include "bench/stored/supervise.hpp"
#include "tenure/claim.hpp"

namespace tenure::bench::stored {

void ask_permits(Report& report) {
  pin_to_core(0);
  const Space space = open_file(scratch_path("permits"));
  Race race{report.effort(), std::chrono::milliseconds{20}};
  const auto pair = [&](const Claim& claim) {
    return race.add([&space, claim](std::uint64_t operations) {
      for (std::uint64_t i = 0; i < operations; ++i) lock_and_release(space, claim);
    });
  };
  const auto one = pair(book(1).permits(10));
  const auto three = pair(book(2).permits(10).take(3));
  race.run(100);
  report.compare("three of ten permits", {"", in_us(race[three]), "us"},
                 {"one permit", in_us(race[one]), "us"}, at_most(1.2));
}

}  // namespace tenure::bench::stored
