// The cost of durable transactions of a process, one at a time and many at once, compared with a
// bare loop of synced transactions; and the cost of its puts for its own locks.
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bench/program.hpp"
#include "bench/stored/durable.hpp"
#include "bench/stored/ours.hpp"
#include "bench/stored/questions.hpp"
#include "bench/stored/sqlite.hpp"
#include "bench/stored/supervise.hpp"

namespace tenure::bench::stored {
void ask_puts(Report& report) {
  pin_to_core(0);
  const auto path = scratch_path("puts");
  const Space space = open_file(path);
  const auto beside = store("sqlite:" + path.string());
  const std::size_t count = report.effort().of(200, 5);
  Race race{report.effort()};
  const auto with = race.add_round([&] { return pair_ns(space, beside.get(), count); });
  const auto without = race.add_round([&] { return pair_ns(space, nullptr, count); });
  race.run(100);
  report.compare("lock + release after a put", {"", a_second(race[with]), "/s"},
                 {"without", a_second(race[without]), "/s"}, at_least(0.9));
}

void ask_durable(Report& report) {
  SyncedRows rows{scratch_path("bare")};
  const auto ours = store("sqlite:" + scratch_path("durable").string());
  Race race{report.effort(), std::chrono::milliseconds{30}};
  const auto bare = race.add([&](std::uint64_t operations) {
    for (std::uint64_t i = 0; i < operations; ++i) rows.put();
  });
  const std::vector<std::size_t> depths = {1, 16, 256};
  std::vector<std::unique_ptr<Durable>> durable;
  std::vector<std::size_t> places;
  for (const std::size_t depth : depths) {
    durable.push_back(std::make_unique<Durable>(*ours, depth));
    places.push_back(
        race.add([one = durable.back().get()](std::uint64_t operations) { one->run(operations); }));
  }
  race.run(40);
  const Samples control = a_second(race[bare]);
  for (std::size_t i = 0; i < depths.size(); ++i) {
    report.compare(std::to_string(depths[i]) + " at a time", {"", a_second(race[places[i]]), "/s"},
                   {"one synced transaction each", control, "/s"},
                   depths[i] == 256 ? std::optional{at_least(15)} : std::nullopt);
  }
}

}  // namespace tenure::bench::stored
