// A disk that is full, and a remote that cannot be written, in a mount namespace of a child.
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "git/world_test.hpp"

namespace tenure::git {
namespace {

using kit::contains;

// False where this user may not do that.
bool enter_namespace() {
  if (::geteuid() != 0 && ::unshare(CLONE_NEWUSER) != 0) return false;
  if (::unshare(CLONE_NEWNS) != 0) return false;
  return ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0;
}

Options quick() {
  Options out;
  out.sleep = [](std::chrono::nanoseconds) {};
  return out;
}

// "PROBLEM message" of a transaction that writes `size` bytes, or "pushed".
std::string outcome_of(const World& world, std::size_t size) {
  const Space space = open("local:");
  Repository store{world.remote(), "main", {}, space, quick()};
  try {
    store.transaction([size](Transaction& change) {
      std::string noise;
      for (std::size_t i = 0; noise.size() < size; ++i) noise += std::to_string(i * i * 7919);
      write(change.directory() / "large", noise);
    });
    return "pushed";
  } catch (const GitError& error) {
    return std::to_string(static_cast<int>(error.problem())) + " " + error.what();
  }
}

std::string code(Problem problem) { return std::to_string(static_cast<int>(problem)) + " "; }

TEST(GitDisk, AFullDiskHereIsReportedAndForgiven) {
  const World world;
  kit::Process child{[&](const kit::Line& line) {
    fs::create_directories(world.cache());
    if (!enter_namespace() || ::mount("tmpfs", world.cache().c_str(), "tmpfs", 0, "size=1m") != 0) {
      line.say("may not mount");
      return;
    }
    line.say(outcome_of(world, 800'000));  // The file has room; its object does not.
    line.say(world.head());
    line.say(outcome_of(world, 10));
  }};
  const std::string head = world.head();
  const std::string first = child.hear();
  if (first == "may not mount") GTEST_SKIP() << "this user may not mount a file system";
  EXPECT_TRUE(first.starts_with(code(Problem::disk_full))) << first;
  EXPECT_TRUE(contains(first, "free some space")) << first;
  EXPECT_EQ(child.hear(), head);
  EXPECT_EQ(child.hear(), "pushed");
  EXPECT_EQ(child.exit_status(), 0);
}

TEST(GitDisk, AFullDiskAtTheRemoteIsReportedAndLosesNothing) {
  const World world;
  const std::string head = world.head();
  kit::Process child{[&](const kit::Line& line) {
    const fs::path remote = world.remote();
    const fs::path aside = world.path("aside.git");
    fs::copy(remote, aside, fs::copy_options::recursive);
    if (!enter_namespace() || ::mount("tmpfs", remote.c_str(), "tmpfs", 0, "size=1m") != 0) {
      line.say("may not mount");
      return;
    }
    fs::copy(aside, remote, fs::copy_options::recursive);
    line.say(outcome_of(world, 3'000'000));
    line.say(world.head());
    line.say(outcome_of(world, 10));
  }};
  const std::string first = child.hear();
  if (first == "may not mount") GTEST_SKIP() << "this user may not mount a file system";
  EXPECT_TRUE(first.starts_with(code(Problem::disk_full))) << first;
  EXPECT_TRUE(contains(first, "No space left on device")) << first;
  EXPECT_EQ(child.hear(), head);
  EXPECT_EQ(child.hear(), "pushed");
}

TEST(GitDisk, AReadOnlyRemoteIsRefusedAtOnce) {
  const World world;
  const std::string head = world.head();
  kit::Process child{[&](const kit::Line& line) {
    const std::string remote = world.remote();
    if (!enter_namespace() ||
        ::mount(remote.c_str(), remote.c_str(), nullptr, MS_BIND, nullptr) != 0 ||
        ::mount(nullptr, remote.c_str(), nullptr, MS_BIND | MS_REMOUNT | MS_RDONLY, nullptr) != 0) {
      line.say("may not mount");
      return;
    }
    line.say(outcome_of(world, 10));
  }};
  const std::string first = child.hear();
  if (first == "may not mount") GTEST_SKIP() << "this user may not mount a file system";
  EXPECT_TRUE(first.starts_with(code(Problem::refused))) << first;
  EXPECT_TRUE(contains(first, "unable to create temporary object directory")) << first;
  EXPECT_EQ(world.head(), head);
  EXPECT_EQ(outcome_of(world, 10), "pushed");
}

}  // namespace
}  // namespace tenure::git
