// Transactions and checkpoints on a remote of this machine, with real git beside them.
#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <vector>

#include "git/world_test.hpp"

namespace tenure::git {
namespace {

Options quick() {
  Options options;
  options.sleep = [](std::chrono::nanoseconds) {};
  return options;
}

class GitRepository : public testing::Test {
 protected:
  World world;
  Space space = open("local:");
  [[nodiscard]] Repository repository(Options options = quick(), const fs::path& copy = {}) {
    return {world.remote(), "main", copy, space, std::move(options)};
  }
};

TEST_F(GitRepository, CommitsAndPushesWhatTheTransformChanged) {
  Repository store = repository();
  const std::string before = world.head();
  const Outcome outcome = store.transaction([&](Transaction& change) {
    EXPECT_EQ(change.head(), before);
    EXPECT_EQ(change.attempt(), 1U);
    write(change.directory() / "new/file", "text");
    fs::remove(change.directory() / "count");
    change.set_message("Replace the count\n\nReviewed-by: Ann");
  });
  EXPECT_EQ(outcome.commit, world.head());
  EXPECT_EQ(outcome.attempts, 1U);
  EXPECT_EQ(world.at_remote({"rev-parse", "main^"}), before);
  EXPECT_EQ(world.file("new/file"), "text");
  EXPECT_EQ(world.at_remote({"ls-tree", "-r", "--name-only", "main"}), ".gitignore\nnew/file");
  EXPECT_EQ(world.at_remote({"log", "-1", "--format=%an <%ae>|%cn|%B", "main"}),
            "Test <test@example.org>|Test|Replace the count\n\nReviewed-by: Ann\nTenure-Token: " +
                std::to_string(outcome.token.value));
  EXPECT_EQ(
      world.at_remote({"log", "-1", "--format=%(trailers:key=Tenure-Token,valueonly)", "main"}),
      std::to_string(outcome.token.value));
}

TEST_F(GitRepository, NoChangeMeansNoCommit) {
  Repository store = repository();
  const std::string before = world.head();
  const Outcome outcome = store.transaction([](Transaction& change) {
    write(change.directory() / "count", "0");
    write(change.directory() / "ignored.tmp", "x");
  });
  EXPECT_EQ(outcome.commit, "");
  EXPECT_EQ(outcome.head, before);
  EXPECT_EQ(world.head(), before);
}

TEST_F(GitRepository, TheTransformSeesACleanTreeEachTime) {
  Repository store = repository();
  for (int i = 0; i < 3; ++i) {
    store.transaction([i](Transaction& change) {
      std::vector<std::string> names;
      for (const auto& entry : fs::recursive_directory_iterator{change.directory()}) {
        names.push_back(entry.path().lexically_relative(change.directory()));
      }
      std::ranges::sort(names);
      EXPECT_EQ(names, (std::vector<std::string>{".git", ".gitignore", "count"}));
      add_one(change);
      write(change.directory() / "ignored.tmp", "x");
      fs::create_directories(change.directory() / "empty/deeper");
      EXPECT_EQ(i, std::stoi(read(change.directory() / "count")) - 1);
    });
  }
  EXPECT_EQ(world.file("count"), "3");
}

TEST_F(GitRepository, AnExceptionOfTheTransformChangesNothing) {
  const fs::path copy = world.path("copy");
  Repository store = repository(quick(), copy);
  store.transaction(&add_one);
  const std::string before = world.head();
  EXPECT_THROW(store.transaction([](Transaction& change) {
    write(change.directory() / "count", "99");
    write(change.directory() / "half", "x");
    throw std::logic_error("not today");
  }),
               std::logic_error);
  EXPECT_EQ(world.head(), before);
  EXPECT_EQ(read(copy / "count"), "1");
  EXPECT_EQ(World::run({"-C", copy, "status", "--porcelain"}), "");
  store.transaction([](Transaction& change) {
    EXPECT_FALSE(fs::exists(change.directory() / "half"));
    add_one(change);
  });
  EXPECT_EQ(world.file("count"), "2");
}

TEST_F(GitRepository, RunsTheTransformAgainOnTheNewHeadWhenAnotherWriterPushedFirst) {
  Repository store = repository();
  std::vector<std::string> heads;
  const Outcome outcome = store.transaction([&](Transaction& change) {
    if (change.attempt() <= 2) {
      world.push_foreign("foreign" + std::to_string(change.attempt()), "x");
    }
    heads.push_back(change.head());
    EXPECT_EQ(fs::exists(change.directory() / "foreign1"), change.attempt() > 1);
    add_one(change);
  });
  EXPECT_EQ(outcome.attempts, 3U);
  EXPECT_EQ(heads.size(), 3U);
  EXPECT_EQ(world.file("count"), "1");
  EXPECT_EQ(world.commits(), 4U);
}

TEST_F(GitRepository, GivesUpAfterTheLimitWithTheNumberOfAttempts) {
  Options options = quick();
  options.max_attempts = 3;
  std::vector<double> pauses;
  options.random = [] { return 1.0; };
  options.sleep = [&](std::chrono::nanoseconds time) {
    pauses.push_back(std::chrono::duration<double, std::milli>{time}.count());
  };
  Repository store = repository(options);
  int calls = 0;
  try {
    store.transaction([&](Transaction& change) {
      world.push_foreign("foreign", std::to_string(++calls));
      add_one(change);
    });
    FAIL() << "it did not give up";
  } catch (const GitError& error) {
    EXPECT_EQ(error.problem(), Problem::branch_moved);
    EXPECT_EQ(error.attempts(), 3U);
    EXPECT_TRUE(kit::contains(error.what(), "gave up after 3 attempts"));
  }
  EXPECT_EQ(calls, 3);
  EXPECT_EQ(pauses, (std::vector<double>{20, 40}));  // The most that full jitter allows.
  EXPECT_EQ(world.file("count"), "0");
}

TEST_F(GitRepository, ManyChangesOfTheSameSizeInAMomentAreAllSeen) {
  Repository store = repository();
  for (int i = 0; i < 30; ++i) {
    store.transaction(
        [i](Transaction& change) { write(change.directory() / "digit", std::to_string(i % 10)); });
  }
  EXPECT_EQ(world.commits(), 31U);
}

TEST_F(GitRepository, KeepsModesLinksAndOddNames) {
  Repository store = repository();
  store.transaction([](Transaction& change) {
    write(change.directory() / "run.sh", "#!/bin/sh\n");
    fs::permissions(change.directory() / "run.sh", fs::perms::owner_exec, fs::perm_options::add);
    fs::create_symlink("run.sh", change.directory() / "link");
    write(change.directory() / "a b\n\"c\" \xc3\xa9", "odd");
  });
  const std::string list = world.at_remote({"ls-tree", "-z", "-r", "main"});
  EXPECT_TRUE(kit::contains(list, "100755"));
  EXPECT_TRUE(kit::contains(list, "120000"));
  EXPECT_EQ(world.file("a b\n\"c\" \xc3\xa9"), "odd");
  store.transaction([](Transaction& change) {
    EXPECT_TRUE(fs::is_symlink(change.directory() / "link"));
    add_one(change);
  });
}

TEST_F(GitRepository, TheWorktreeIsKeptAndReused) {
  Repository store = repository();
  fs::path first;
  std::uintmax_t inode = 0;
  const auto inode_of = [](const fs::path& file) {
    struct stat status{};
    EXPECT_EQ(::stat(file.c_str(), &status), 0);
    return status.st_ino;
  };
  store.transaction([&](Transaction& change) {
    first = change.directory();
    inode = inode_of(change.directory() / ".gitignore");
    add_one(change);
  });
  Repository other = repository();
  other.transaction([&](Transaction& change) {
    EXPECT_EQ(change.directory(), first);
    EXPECT_EQ(inode_of(change.directory() / ".gitignore"), inode);
    add_one(change);
  });
}

TEST_F(GitRepository, CommitsThatTheTransformMakesItselfBecomeOne) {
  Repository store = repository();
  store.transaction([](Transaction& change) {
    add_one(change);
    World::run({"-C", change.directory(), "commit", "-q", "-am", "inner"});
    write(change.directory() / "more", "x");
  });
  EXPECT_EQ(world.commits(), 2U);
  EXPECT_EQ(world.file("more"), "x");
  EXPECT_EQ(world.file("count"), "1");
}

TEST_F(GitRepository, ATransactionInsideATransformIsADeadlock) {
  Repository store = repository();
  EXPECT_THROW(store.transaction([&](Transaction&) { store.transaction(&add_one); }), Deadlock);
  store.transaction(&add_one);
  EXPECT_EQ(world.file("count"), "1");
}

TEST_F(GitRepository, AStopEndsTheCallAndPushesNothing) {
  Repository store = repository();
  std::stop_source source;
  EXPECT_EQ(problem_of([&] {
              store.transaction(
                  [&](Transaction& change) {
                    add_one(change);
                    source.request_stop();
                  },
                  source.get_token());
            }),
            Problem::stopped);
  EXPECT_EQ(world.file("count"), "0");
}

TEST_F(GitRepository, APreviewPrintsTheChangesAndPushesNothing) {
  Repository store = repository();
  const std::string patch = store.preview(&add_one);
  EXPECT_TRUE(kit::contains(patch, "-0"));
  EXPECT_TRUE(kit::contains(patch, "+1"));
  EXPECT_EQ(world.file("count"), "0");
  store.transaction(&add_one);
  EXPECT_EQ(world.file("count"), "1");
}

TEST_F(GitRepository, TheWorkingCopyIsClonedAndFollows) {
  const fs::path copy = world.path("copy");
  Repository store = repository(quick(), copy);
  const Outcome outcome = store.transaction(&add_one);
  EXPECT_EQ(outcome.working_copy_note, "");
  EXPECT_EQ(read(copy / "count"), "1");
  EXPECT_EQ(World::run({"-C", copy, "rev-parse", "HEAD"}), outcome.commit);
  EXPECT_EQ(World::run({"-C", copy, "status", "--porcelain"}), "");
  world.push_foreign("other", "x");
  store.transaction(&add_one);
  EXPECT_EQ(read(copy / "other"), "x");
  World::run({"-C", copy, "fsck", "--strict"});
}

TEST_F(GitRepository, ACheckpointCommitsWhatTheWorkingCopyHolds) {
  const fs::path copy = world.path("copy");
  Repository store = repository(quick(), copy);
  store.transaction(&add_one);
  EXPECT_EQ(store.checkpoint("nothing").commit, "");
  write(copy / "notes", "mine\n");
  fs::remove(copy / "count");
  const Outcome outcome = store.checkpoint("Notes");
  EXPECT_EQ(outcome.commit, world.head());
  EXPECT_EQ(world.file("notes"), "mine");
  EXPECT_EQ(world.at_remote({"ls-tree", "--name-only", "main"}), ".gitignore\nnotes");
  EXPECT_EQ(World::run({"-C", copy, "status", "--porcelain", "--branch"}).substr(0, 7), "## main");
  EXPECT_EQ(World::run({"-C", copy, "rev-parse", "HEAD"}), outcome.commit);
}

TEST_F(GitRepository, ACheckpointMergesWithWhatOthersPushed) {
  const fs::path copy = world.path("copy");
  world.push_foreign("list", "a\nb\nc\nd\ne\n");
  Repository store = repository(quick(), copy);
  store.transaction(&add_one);
  world.push_foreign("list", "A\nb\nc\nd\ne\n");
  write(copy / "list", "a\nb\nc\nd\nE\n");
  const Outcome outcome = store.checkpoint("Mine");
  EXPECT_EQ(world.file("list"), "A\nb\nc\nd\nE");
  EXPECT_EQ(read(copy / "list"), "A\nb\nc\nd\nE\n");
  EXPECT_EQ(outcome.working_copy_note, "");
  EXPECT_EQ(World::run({"-C", copy, "status", "--porcelain"}), "");
}

TEST_F(GitRepository, ACheckpointWithTheSameLinesChangedIsRefused) {
  const fs::path copy = world.path("copy");
  Repository store = repository(quick(), copy);
  store.transaction(&add_one);
  world.push_foreign("count", "theirs");
  write(copy / "count", "mine");
  std::string message;
  EXPECT_EQ(problem_of([&] { store.checkpoint("Mine"); }, &message), Problem::working_copy);
  EXPECT_TRUE(kit::contains(message, "'count'")) << message;
  EXPECT_EQ(read(copy / "count"), "mine");
  EXPECT_EQ(world.file("count"), "theirs");
}

}  // namespace
}  // namespace tenure::git
