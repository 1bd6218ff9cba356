// A lock through a sharded space next to the same lock in its shard directly: what the map, the
// gate and the way to the shard cost.
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

#include "bench/names.hpp"
#include "bench/program.hpp"
#include "bench/stored/ours.hpp"
#include "bench/stored/questions.hpp"
#include "bench/stored/supervise.hpp"
#include "tenure/shards.hpp"

namespace tenure::bench::stored {
namespace {

constexpr std::chrono::microseconds round_time{20'000};  // Several checkpoints.
constexpr std::size_t rounds = 150;
constexpr std::size_t shard_count = 8;

void lock_and_release(const Space& space, std::uint64_t operations) {
  for (std::uint64_t i = 0; i < operations; ++i) space.lock(book).release();
}

}  // namespace

void ask_sharded(Report& report) {
  pin_to_core(0);
  const std::string list = scratch_path("shards").string();
  std::vector<std::string> names;
  std::ofstream file{list};
  for (std::size_t i = 0; i < shard_count; ++i) {
    names.push_back("s" + std::to_string(i));
    file << names.back() << " sqlite:" << scratch_path("shard").string() << "\n";
  }
  file.close();
  set_shards("sharded:" + list, names);
  const Space sharded = open("sharded:" + list);
  const Space direct = open_file(scratch_path("direct"));
  Race race{report.effort(), round_time};
  const std::size_t ours =
      race.add([&sharded](std::uint64_t operations) { lock_and_release(sharded, operations); });
  const std::size_t rival =
      race.add([&direct](std::uint64_t operations) { lock_and_release(direct, operations); });
  race.run(rounds);
  report.compare("lock + release, one of 8 shards", {"", in_us(race[ours]), "us"},
                 {"directly", in_us(race[rival]), "us"}, at_most(1.1));
}

}  // namespace tenure::bench::stored
