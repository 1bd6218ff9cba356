// Many threads on a small tree, with everything that the API has. What is protected is checked by
// the threads themselves: plain integers that the thread sanitizer watches too.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <random>
#include <stop_token>
#include <thread>
#include <vector>

#include "tenure/rule.hpp"
#include "tenure/tenure.hpp"

namespace tenure {
namespace {

using namespace std::chrono_literals;

// A tree of three levels. A claim on a path protects the cells of the leaves below it.
constexpr std::size_t leaves = 6;
const std::array<Path, leaves> leaf = {Path::of("a", 1),      Path::of("a", 2),
                                       Path::of("a", 3, "x"), Path::of("a", 3, "y"),
                                       Path::of("b"),         Path::of("c", "d", "e")};
const std::array<Path, 6> inner = {Path{},        Path::of("a"),      Path::of("a", 3),
                                   Path::of("c"), Path::of("c", "d"), Path::of("a", 1, "below")};

struct World {
  struct alignas(64) Cell {
    long value = 0;                // Written under an exclusive claim, read under a shared one.
    std::atomic<int> permits = 0;  // Members of the limited group.
    std::atomic<std::uint64_t> last = 0;  // The largest token that wrote.
  };
  std::array<Cell, leaves> cells;
  std::atomic<long> writes = 0;
  std::atomic<long> expected = 0;
};

class Player {
 public:
  Player(const Space& space, World& world, unsigned seed)
      : space_(space), world_(world), random_(seed) {}

  void play(int rounds) {
    for (int i = 0; i < rounds; ++i) {
      switch (below(9)) {
        case 0: use(space_.try_lock(request()), claims_); break;
        case 1:
          use(space_.try_lock_for(request(), std::chrono::microseconds{below(50)}), claims_);
          break;
        case 2: stop_soon(); break;
        case 3: downgrade(); break;
        case 4:
          if (below(64) == 0) wander();
          break;
        default: use(space_.lock(request()), claims_);
      }
    }
  }

 private:
  std::size_t below(std::size_t limit) { return random_() % limit; }

  Claim claim() {
    const Path& path = below(4) == 0 ? inner[below(inner.size())] : leaf[below(leaves)];
    switch (below(5)) {
      case 0: return path.shared();
      case 1: return path.group("pull");
      case 2: return path.permits(2);
      default: return path;
    }
  }

  std::span<const Claim> request() {
    claims_.clear();
    claims_.push_back(claim());
    if (below(4) == 0) {
      claims_.push_back(claim());
      if (find_fault(claims_)) claims_.pop_back();
    }
    return claims_;
  }

  void use(std::optional<Hold> hold, const std::vector<Claim>& claims) {
    if (!hold) return;
    for (const Claim& claim : claims) {
      for (std::size_t i = 0; i < leaves; ++i) {
        if (claim.path.covers(leaf[i])) touch(world_.cells[i], claim, leaf[i], hold->token());
      }
    }
  }

  void touch(World::Cell& cell, const Claim& claim, const Path& path, Token token) {
    if (claim.mode.is_exclusive()) {
      ++cell.value;
      world_.writes.fetch_add(1, std::memory_order_relaxed);
      // Equal when two claims of one hold cover the same leaf.
      ASSERT_LE(cell.last.load(std::memory_order_relaxed), token.value) << "tokens go up";
      cell.last.store(token.value, std::memory_order_relaxed);
      return;
    }
    const long before = cell.value;
    ASSERT_LE(cell.last.load(std::memory_order_relaxed), token.value) << "tokens go up";
    if (claim.mode.limit() != 0 && claim.path == path) {
      ASSERT_LE(cell.permits.fetch_add(1) + 1, 2) << path;
      cell.permits.fetch_sub(1);
    }
    ASSERT_EQ(cell.value, before) << "a writer was in at the same time";
  }

  // So many other paths that shards forget those of the tree that nobody uses at the time.
  void wander() {
    for (int i = 0; i < 2000; ++i) static_cast<void>(space_.try_lock(Path::of("other", i)));
  }

  void stop_soon() {
    std::stop_source stop;
    const std::span<const Claim> claims = request();
    std::jthread stopper;
    if (below(2) == 0) stopper = std::jthread{[stop]() mutable { stop.request_stop(); }};
    if (!stopper.joinable()) stop.request_stop();
    use(space_.lock(claims, stop.get_token()), claims_);
  }

  void downgrade() {
    const Path path = leaf[below(leaves)];
    Hold hold = space_.lock(path);
    world_.cells[static_cast<std::size_t>(std::ranges::find(leaf, path) - leaf.begin())].value += 1;
    world_.writes.fetch_add(1, std::memory_order_relaxed);
    hold.downgrade(path.shared());
    use(std::move(hold), {path.shared()});
  }

  const Space& space_;
  World& world_;
  std::minstd_rand random_;
  std::vector<Claim> claims_;
};

TEST(Stress, NobodyIsInWhenAnotherExcludesIt) {
  const Space space = open("local:");
  World world;
  {
    std::vector<std::jthread> threads;
    for (unsigned i = 0; i < 6; ++i) {
      threads.emplace_back([&, i] { Player{space, world, i + 1}.play(4000); });
    }
  }
  EXPECT_TRUE(space.inspect().empty());
  long total = 0;
  for (const World::Cell& cell : world.cells) total += cell.value;
  EXPECT_EQ(total, world.writes.load());
}

// Holds of a space that is going: released by other threads while it is destroyed.
TEST(Stress, TheLastHoldsAndTheSpaceGoAtOnce) {
  for (int round = 0; round < 500; ++round) {
    std::optional<Space> space = open("local:");
    std::vector<Hold> thin;
    for (int i = 0; i < 4; ++i) thin.push_back(space->lock(Path::of("k", i)));
    std::vector<Hold> thick;
    thick.push_back(space->lock({Path::of("m"), Path::of("n", 1)}));
    std::jthread one{[&] { thin.clear(); }};
    std::jthread two{[&] { thick.clear(); }};
    space.reset();
  }
}

// Evictions race with releases: whoever comes second finds nothing, and the lock is free after.
TEST(Stress, EvictionRacesWithRelease) {
  const Space space = open("local:");
  for (int round = 0; round < 2000; ++round) {
    Hold hold = round % 2 == 0 ? space.lock(Path::of("a", 1)) : space.lock(Path::of("a"));
    std::atomic<int> wins = 0;
    std::jthread operator_{[&, token = hold.token()] { wins += space.evict(token) ? 1 : 0; }};
    wins += hold.release() ? 1 : 0;
    operator_.join();
    ASSERT_EQ(wins.load(), 1);
    ASSERT_TRUE(space.try_lock(Path::of("a")));
  }
}

// A waiter that gives up while an operator evicts it, or the space closes: it must not touch a
// ticket that is gone, or that belongs to somebody else by then.
TEST(Stress, GivingUpRacesWithEvictionAndClosing) {
  for (int round = 0; round < 300; ++round) {
    std::optional<Space> space = open("local:");
    const Locker anyone = space->as(Owner{});
    const Hold hold = anyone.lock(Path::of("a"));
    std::vector<std::jthread> waiters;
    for (int i = 0; i < 3; ++i) {
      waiters.emplace_back([&anyone] {
        for (int k = 0; k < 20; ++k) {
          try {
            EXPECT_FALSE(anyone.try_lock_for(Path::of("a", 1), std::chrono::microseconds{1}));
          } catch (const Evicted&) {
          } catch (const Closed&) {
          }
        }
      });
    }
    for (int i = 0; i < 10; ++i) {
      for (const TicketInfo& info : space->inspect()) {
        if (!info.granted) space->evict(info.ticket.number);
      }
    }
    space.reset();
  }
}

}  // namespace
}  // namespace tenure
