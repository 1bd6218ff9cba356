// Rivals: the two write transactions that a lock and a release need at least; Redis and PostgreSQL,
// whose clients ask a server, which is pinned to the client's core or to another one.
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bench/program.hpp"
#include "bench/stored/ours.hpp"
#include "bench/stored/postgres.hpp"
#include "bench/stored/questions.hpp"
#include "bench/stored/redis.hpp"
#include "bench/stored/sqlite.hpp"
#include "bench/stored/supervise.hpp"
#include "tenure/claim.hpp"

namespace tenure::bench::stored {
namespace {

// A round spans several checkpoints of SQLite, which come every few hundred transactions.
constexpr std::chrono::microseconds round_time{20'000};
constexpr std::size_t rounds = 100;

template <class Step>
Race::Work repeat(Step step) {
  return [step](std::uint64_t operations) {
    for (std::uint64_t i = 0; i < operations; ++i) step();
  };
}

// A rival with a server, in one placement.
struct Remote {
  std::string_view name;
  const Placement& placement;
  double times;  // At least so many times the rate of the rival.
  std::size_t contestant;
};

// The servers, which must start before a database is opened here.
struct Servers {
  std::unique_ptr<Redis> redis = Redis::start();
  std::unique_ptr<Postgres> postgres = Postgres::start();
  std::optional<Postgres::Session> tcp;
  std::optional<Postgres::Session> unix_socket;

  explicit Servers(Report& report) {
    if (redis == nullptr) report.note("Redis: not measured, redis-server is not installed");
    if (postgres == nullptr) report.note("PostgreSQL: not measured, initdb is not installed");
    if (postgres == nullptr) return;
    tcp.emplace(postgres->over_tcp());
    unix_socket.emplace(postgres->over_unix_socket());
  }
};

template <class Rival>
std::size_t add(Race& race, Rival& rival, const Placement& placement) {
  return race.add([&rival, &placement](std::uint64_t operations) {
    pin_to_core(placement.core_of(1), rival.server());
    for (std::uint64_t i = 0; i < operations; ++i) {
      rival.lock();
      rival.unlock();
    }
  });
}

std::vector<Remote> add_remotes(Race& race, Servers& servers, std::span<const Placement> where) {
  std::vector<Remote> remotes;
  for (const Placement& placement : where) {
    if (servers.redis != nullptr) {
      remotes.push_back({.name = "Redis",
                         .placement = placement,
                         .times = placement.cores == 1 ? 1.5 : 4.0,
                         .contestant = add(race, *servers.redis, placement)});
    }
    if (servers.postgres == nullptr) continue;
    remotes.push_back({.name = "PostgreSQL, TCP",
                       .placement = placement,
                       .times = 1,
                       .contestant = add(race, *servers.tcp, placement)});
    remotes.push_back({.name = "PostgreSQL, socket",
                       .placement = placement,
                       .times = 1,
                       .contestant = add(race, *servers.unix_socket, placement)});
  }
  return remotes;
}

// Contestants without a server: ours in three ways, and the minimum.
struct Locals {
  Tickets tickets{scratch_path("bare")};
  Space space = open_file(scratch_path("ours"));
  Claim flat = book.exclusive();
  Claim third = book(3, "x").exclusive();

  [[nodiscard]] Race::Work ours() {
    return repeat([this] { lock_and_release(space, flat); });
  }
  [[nodiscard]] Race::Work deep() {
    return repeat([this] { lock_and_release(space, third); });
  }
  [[nodiscard]] Race::Work dropped() {
    return repeat([this] { const Hold hold = space.lock(flat); });
  }
  [[nodiscard]] Race::Work bare() {
    return repeat([this] {
      tickets.insert("book");
      tickets.remove("book");
    });
  }
};

// Rounds so short that most of them contain no checkpoint: this leaves out the cost of the disk.
void between_checkpoints(Report& report, Locals& locals) {
  Race race{report.effort()};
  const auto ours = race.add(locals.ours());
  const auto deep = race.add(locals.deep());
  const auto bare = race.add(locals.bare());
  race.run();
  const Samples control = in_us(race[bare]);
  const Report::Side rival{.name = "two bare transactions", .samples = control, .unit = "us"};
  report.compare("1 deep, between checkpoints", {"", in_us(race[ours]), "us"}, rival);
  report.compare("3 deep, between checkpoints", {"", in_us(race[deep]), "us"}, rival);
}

}  // namespace

void ask_uncontended(Report& report) {
  const std::span<const Placement> where = possible_placements(report);
  pin_to_core(0);
  Servers servers{report};
  Locals locals;
  Race race{report.effort(), round_time};
  const auto ours = race.add(locals.ours());
  const auto deep = race.add(locals.deep());
  const auto dropped = race.add(locals.dropped());
  const auto bare = race.add(locals.bare());
  const std::vector<Remote> remotes = add_remotes(race, servers, where);
  race.run(rounds);

  const Samples control = in_us(race[bare]);
  const Report::Side rival{.name = "two bare transactions", .samples = control, .unit = "us"};
  report.compare("1 deep", {"", in_us(race[ours]), "us"}, rival, at_most(1.4));
  report.compare("3 deep", {"", in_us(race[deep]), "us"}, rival, at_most(1.4));
  report.compare("1 deep, by the destructor", {"", in_us(race[dropped]), "us"}, rival);
  between_checkpoints(report, locals);
  for (const Remote& remote : remotes) {
    const Samples theirs = a_second(race[remote.contestant]);
    const std::string line = remote.placement.line("1 deep, client + server");
    report.compare(line, {"", a_second(race[ours]), "/s"}, {remote.name, theirs, "/s"},
                   at_least(remote.times));
  }
}

}  // namespace tenure::bench::stored
