// No rival: the same lock beside many groups that other processes hold on other paths, compared
// with one group.
#include "bench/stored/groups.hpp"

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "bench/stored/ours.hpp"
#include "bench/stored/questions.hpp"
#include "bench/stored/supervise.hpp"
#include "tenure/claim.hpp"
#include "tenure/rule.hpp"

namespace tenure::bench::stored {
namespace {

constexpr std::array<std::size_t, 3> counts = {1, 100, 10'000};

// Where the groups are, seen from the path that is locked.
struct Where {
  const char* name;
  Path root;
};

std::vector<Hold> hold_groups(const Space& space, const Path& root, std::size_t count) {
  std::vector<Hold> holds;
  std::vector<Claim> claims;
  for (std::size_t i = 0; i < count; ++i) {
    claims.push_back((root / Path::of("other", i)).group("run-" + std::to_string(i)));
    if (claims.size() < max_claims && i + 1 < count) continue;
    holds.push_back(space.lock(claims));
    claims.clear();
  }
  return holds;
}

}  // namespace

void compare_groups(Report& report, const std::function<Space(const std::string& name)>& open,
                    std::chrono::microseconds round_time, std::size_t rounds) {
  const std::array<Where, 2> places = {
      {{.name = "elsewhere", .root = film}, {.name = "beside it", .root = book}}};
  const Claim claim = book(3, "x").exclusive();
  std::vector<Space> spaces;
  std::vector<Hold> holds;
  Race race{report.effort(), round_time};
  for (const Where& where : places) {
    for (const std::size_t count : counts) {
      const std::string name = "groups" + std::to_string(spaces.size());
      const Space holder = open(name);
      for (Hold& hold :
           hold_groups(holder, where.root, report.effort().of(count, 1 + count / 100))) {
        holds.push_back(std::move(hold));
      }
      spaces.push_back(open(name));
    }
  }
  for (const Space& space : spaces) {
    race.add([&](std::uint64_t operations) {
      for (std::uint64_t i = 0; i < operations; ++i) lock_and_release(space, claim);
    });
  }
  race.run(rounds);

  std::size_t at = 0;
  for (const Where& where : places) {
    const Samples one = in_us(race[at]);
    for (const std::size_t count : counts) {
      const Samples many = in_us(race[at++]);
      if (count == counts.front()) continue;
      const bool most = count == counts.back();
      report.compare(std::to_string(count) + " groups " + where.name, {"", many, "us"},
                     {"one group", one, "us"}, most ? std::optional{at_most(1.2)} : std::nullopt);
    }
  }
}

void ask_groups(Report& report) {
  pin_to_core(0);
  std::map<std::string, std::filesystem::path> files;
  const auto open = [&files](const std::string& name) {
    const auto [at, made] = files.try_emplace(name);
    if (made) at->second = scratch_path(name);
    return open_file(at->second);
  };
  compare_groups(report, open, std::chrono::milliseconds{20}, 100);
}

}  // namespace tenure::bench::stored
