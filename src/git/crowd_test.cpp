// Many processes at once, a foreign writer with plain git among them, and SIGKILL.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <iostream>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "git/world_test.hpp"

namespace tenure::git {
namespace {

// Adds a line to a file that all writers change: a lost update loses a line.
void add_line(const Transaction& change, const std::string& line) {
  append(change.directory() / "log", line + "\n");
}

std::string name_of(std::size_t writer, std::size_t number) {
  return std::to_string(writer) + "." + std::to_string(number);
}

void write_lines(const World& world, const std::string& url, std::size_t writer,
                 std::size_t count) {
  const Space space = open(url);
  Options options;
  options.max_attempts = 1000;
  Repository store{world.remote(), "main", {}, space, options};
  for (std::size_t i = 0; i < count; ++i) {
    store.transaction([&](Transaction& change) { add_line(change, name_of(writer, i)); });
  }
}

// As scripts do it: pull, commit, push, and again from the start when that is rejected.
void push_foreign(const World& world, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    for (bool first = true;; first = false) {
      World::run({"-C", world.foreign(), "pull", "-q", "--rebase"});
      if (first) {
        write(world.foreign() / ("foreign" + std::to_string(i)), "x");
        world.commit_foreign("foreign");
      }
      try {
        World::run({"-C", world.foreign(), "push", "-q", "origin", "HEAD:main"});
        break;
      } catch (const std::exception&) {
        continue;
      }
    }
  }
}

// Every line once, one commit per change, no merges, and a repository without damage.
void check_history(const World& world, std::size_t writers, std::size_t count,
                   std::size_t foreign) {
  const std::vector<std::string> lines = lines_of(world.file("log"));
  std::set<std::string> expected;
  for (std::size_t writer = 0; writer < writers; ++writer) {
    for (std::size_t i = 0; i < count; ++i) expected.insert(name_of(writer, i));
  }
  EXPECT_EQ(lines.size(), expected.size());
  EXPECT_EQ(std::set(lines.begin(), lines.end()), expected);
  for (std::size_t i = 0; i < foreign; ++i) {
    EXPECT_EQ(world.file("foreign" + std::to_string(i)), "x");
  }
  EXPECT_EQ(world.commits(), 1 + (writers * count) + foreign);
  EXPECT_EQ(world.at_remote({"rev-list", "--merges", "main"}), "");
  world.at_remote({"fsck", "--strict"});
}

void race(const std::string& url, std::size_t writers, std::size_t count, std::size_t foreign) {
  const World world;
  const std::string chosen = url.empty() ? world.space_url() : url;
  kit::Children children;
  children.start(writers + 1, [&](std::size_t index) {
    if (index == writers) {
      push_foreign(world, foreign);
    } else {
      write_lines(world, chosen, index, count);
    }
    return 0;
  });
  for (const int status : children.exit_statuses()) EXPECT_EQ(status, 0);
  check_history(world, writers, count, foreign);
}

TEST(GitCrowd, EightProcessesAndAForeignWriterLoseNothing) { race("", 8, 25, 25); }

// No lock between them: only retries.
TEST(GitCrowd, WithoutTheLockNothingIsLostEither) { race("local:", 4, 6, 4); }

TEST(GitCrowd, TokensGoUpAlongTheHistory) {
  const World world;
  const Space space = open(world.space_url());
  Repository store{world.remote(), "main", {}, space};
  std::vector<std::thread> threads;
  for (std::size_t writer = 0; writer < 3; ++writer) {
    threads.emplace_back([&store, writer] {
      for (std::size_t i = 0; i < 3; ++i) {
        store.transaction([&](Transaction& change) { add_line(change, name_of(writer, i)); });
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  check_history(world, 3, 3, 0);
  std::uint64_t last = 0;
  for (const std::string& text : lines_of(world.at_remote(
           {"log", "--reverse", "--format=%(trailers:key=Tenure-Token,valueonly,separator=)",
            "main~9..main"}))) {
    if (text.empty()) continue;
    EXPECT_GT(std::stoull(text), last);
    last = std::stoull(text);
  }
  EXPECT_GT(last, 0U);
}

// A process that is killed at a random moment, and says before which change it was alive.
TEST(GitCrowd, SigkillAtRandomMomentsLosesNothingAndRepeatsNothing) {
  const World world;
  const std::string url = world.space_url();
  const char* const chosen = std::getenv("TENURE_GIT_SEED");  // NOLINT(concurrency-mt-unsafe)
  const unsigned seed =
      chosen != nullptr ? static_cast<unsigned>(std::stoul(chosen)) : std::random_device{}();
  std::cout << "TENURE_GIT_SEED=" << seed << '\n';
  std::mt19937 dice{seed};
  std::set<std::string> confirmed;
  const fs::path copy = world.path("copy");
  World::run({"clone", "-q", world.remote(), copy});
  const char* const asked = std::getenv("TENURE_GIT_KILLS");  // NOLINT(concurrency-mt-unsafe)
  const std::size_t runs = asked != nullptr ? std::stoul(asked) : 50;
  for (std::size_t run = 0; run < runs; ++run) {
    kit::Process victim{[&](const kit::Line& line) {
      const Space space = open(url);
      Repository store{world.remote(), "main", run % 2 == 0 ? fs::path{} : copy, space};
      for (std::size_t i = 0;; ++i) {
        line.say("begins");
        store.transaction([&](Transaction& change) { add_line(change, name_of(run, i)); });
        line.say(name_of(run, i));
      }
    }};
    // The moment: within one of the first two changes, which take some 30 ms each.
    EXPECT_EQ(victim.hear(), "begins");
    std::this_thread::sleep_for(
        std::chrono::microseconds{std::uniform_int_distribution<>{0, 60'000}(dice)});
    victim.kill();
    while (const std::optional<std::string> said = victim.line().hear()) {
      if (*said != "begins") confirmed.insert(*said);
    }
  }
  // One more of each, to its end: whatever the killed ones left is no obstacle.
  const Space space = open(url);
  Repository alone{world.remote(), "main", {}, space};
  alone.transaction([](Transaction& change) { add_line(change, "alone"); });
  Repository last{world.remote(), "main", copy, space};
  EXPECT_EQ(last.transaction([](Transaction& change) { add_line(change, "last"); }).attempts, 1U);
  std::map<std::string, int> times;
  for (const std::string& line : lines_of(world.file("log"))) ++times[line];
  for (const auto& [line, count] : times) EXPECT_EQ(count, 1) << line;
  for (const std::string& line : confirmed) EXPECT_EQ(times[line], 1) << line;
  EXPECT_EQ(world.commits(), times.size() + 1);
  EXPECT_EQ(world.at_remote({"rev-list", "--merges", "main"}), "");
  world.at_remote({"fsck", "--strict"});
  World::run({"-C", copy, "fsck", "--strict"});
  EXPECT_EQ(World::run({"-C", copy, "status", "--porcelain"}), "");
  EXPECT_EQ(read(copy / "log"), world.file("log") + "\n");
  // Two slots: one of its own and one of the working copy's. Neither has anything of the dead.
  std::size_t slots = 0;
  for (const auto& entry : fs::recursive_directory_iterator{world.cache()}) {
    const std::string name = entry.path().filename();
    if (name == "ready") ++slots;
    EXPECT_FALSE(name.ends_with(".lock")) << entry.path();
  }
  EXPECT_EQ(slots, 2U);
}

}  // namespace
}  // namespace tenure::git
