// SIGKILL at random moments, of an owner and of its guardians, while every command leaves a child,
// a pair in a session of its own and a daemon: nothing survives.
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <cstdint>
#include <iostream>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "process/guardian.hpp"
#include "process/process_tree.hpp"
#include "process/tools_test.hpp"
#include "tests/kit/process.hpp"

namespace tenure::process {
namespace {

using Kind = Event::Kind;
constexpr int moments = 50;

std::uint64_t new_seed() {
  const char* const given = std::getenv("TENURE_SEED");  // NOLINT(concurrency-mt-unsafe)
  const std::uint64_t seed = given != nullptr ? std::stoull(given) : std::random_device{}();
  std::cout << "TENURE_SEED=" << seed << '\n';
  return seed;
}

// Busy: a sleep would always end in the same part of a time slice.
void spin(std::chrono::microseconds time) {
  const auto end = std::chrono::steady_clock::now() + time;
  while (std::chrono::steady_clock::now() < end) {
  }
}

std::chrono::microseconds up_to(std::mt19937_64& random, int most_us) {
  return std::chrono::microseconds{std::uniform_int_distribution{0, most_us}(random)};
}

// Two slots that are always busy. What a command leaves is ended, or stays with its guardian, of
// which a slot then has several.
class Runner {
 public:
  Runner(std::string mark, std::uint64_t seed) : mark_(std::move(mark)), random_(seed) {
    adopt_orphans();
    for (std::size_t slot = 0; slot < 2; ++slot) {
      guardians_.push_back(Guardian::start());
      launch(slot);
    }
  }

  [[nodiscard]] Guardian& guardian(std::size_t slot) { return guardians_.at(slot); }
  [[nodiscard]] std::string mark(std::size_t slot) const {
    return mark_ + std::to_string(slot) + "-" + std::to_string(generations_.at(slot)) + ".";
  }

  // Handles one event; its slot, if that one's guardian is dead.
  std::optional<std::size_t> step() {
    std::vector<pollfd> waits;
    for (const Guardian& guardian : guardians_) waits.push_back(readable(guardian.descriptor()));
    ::poll(waits.data(), waits.size(), -1);
    for (std::size_t slot = 0; slot < guardians_.size(); ++slot) {
      const std::optional<Event> event = guardians_[slot].next();
      if (!event) continue;
      if (event->kind == Kind::guardian_dead) return slot;
      if (event->kind == Kind::gone || event->kind == Kind::failed) launch(slot);
      if (event->kind == Kind::exited) on_exit(slot, event->left);
    }
    return std::nullopt;
  }

  // As an owner must: it has other guardians, whose commands go on.
  void replace(std::size_t slot) {
    std::vector<pid_t> kept;
    for (const Guardian& guardian : guardians_) kept.push_back(guardian.pid());
    for (const Guardian& guardian : retired_) kept.push_back(guardian.pid());
    std::erase(kept, 0);
    end_orphans(kept);
    guardians_[slot] = guardians_[1 - slot].successor();
    ++generations_.at(slot);
    launch(slot);
  }

 private:
  void launch(std::size_t slot) {
    // Some end at once and leave everything, some stay.
    const bool stays = random_() % 2 == 0;
    Command command = marked_shell(
        std::string{leaves_three_kinds} + (stays ? "exec sleep 0.02" : "exit"), mark(slot));
    command.output = Target::null();
    guardians_[slot].launch(command);
  }

  void on_exit(std::size_t slot, bool left) {
    if (!left) return launch(slot);
    if (random_() % 4 != 0 || retired_.size() > 2) return guardians_[slot].end(base::boot_time());
    try {
      Guardian next = guardians_[slot].successor();
      retired_.push_back(std::exchange(guardians_[slot], std::move(next)));
      ++generations_.at(slot);
      launch(slot);
    } catch (const std::system_error&) {  // It was killed just now; its next event says so.
    }
  }

  const std::string mark_;
  std::mt19937_64 random_;
  std::vector<Guardian> guardians_;
  std::vector<int> generations_ = {0, 0};
  std::vector<Guardian> retired_;  // With what their last commands left.
};

TEST(Survivors, NoneOfAnOwnerThatIsKilled) {
  const std::uint64_t seed = new_seed();
  std::mt19937_64 random{seed};
  for (int i = 0; i < moments; ++i) {
    const std::string mark = new_mark();
    const kit::Shared<std::atomic<int>> steps;
    // Inherited by everything below the owner, guardians included: it hangs up with the last one.
    Pipe alive;
    ASSERT_EQ(::fcntl(alive.write.get(), F_SETFD, 0), 0);  // NOLINT: a vararg call.
    kit::Process owner{[&](const kit::Line&) {
      for (Runner runner{mark, seed + static_cast<std::uint64_t>(i)};;) {
        runner.step();
        ++*steps;
      }
    }};
    alive.write.reset();
    const int moment = std::uniform_int_distribution{0, 12}(random);
    ASSERT_TRUE(wait_until([&] { return *steps >= moment; }));
    spin(up_to(random, 20'000));
    owner.kill();
    pollfd hang_up = readable(alive.read.get());
    ASSERT_EQ(::poll(&hang_up, 1, static_cast<int>(kit::patience().count()) * 1000), 1)
        << find_marked(mark).size() << " survivors in round " << i;
    ASSERT_TRUE(find_marked(mark).empty()) << "in round " << i;
  }
}

TEST(Survivors, NoneOfAGuardianThatIsKilled) {
  const std::uint64_t seed = new_seed();
  const std::string mark = new_mark();
  kit::Process owner{[&](const kit::Line& line) {
    std::mt19937_64 random{seed};
    Runner runner{mark, seed};
    for (int i = 0; i < moments; ++i) {
      for (int steps = std::uniform_int_distribution{0, 8}(random); steps > 0; --steps) {
        runner.step();
      }
      const std::size_t slot = random() % 2;
      spin(up_to(random, 20'000));
      const std::string old = runner.mark(slot);
      ::kill(runner.guardian(slot).pid(), SIGKILL);
      std::optional<std::size_t> dead;
      while (!(dead = runner.step())) {
      }
      runner.replace(*dead);
      line.say(std::to_string(*dead == slot ? find_marked(old).size() : 1'000));
    }
  }};
  for (int i = 0; i < moments; ++i) {
    ASSERT_EQ(owner.hear(), "0") << "survivors in round " << i;
  }
  EXPECT_EQ(owner.exit_status(), 0);
  EXPECT_TRUE(find_marked(mark).empty());
}

}  // namespace
}  // namespace tenure::process
