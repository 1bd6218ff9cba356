// What goes wrong at the remote: every fault has an error that says what to do, and loses nothing.
// G01 to G04 are rows of docs/museum.md.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <string>
#include <vector>

#include "git/world_test.hpp"

namespace tenure::git {
namespace {

using kit::contains;

class GitFaults : public testing::Test {
 protected:
  World world;
  Space space = open("local:");
  Options options = [] {
    Options out;
    out.sleep = [](std::chrono::nanoseconds) {};
    out.max_attempts = 4;
    return out;
  }();
  [[nodiscard]] Repository repository() { return {world.remote(), "main", {}, space, options}; }

  void hook(const std::string& name, const std::string& script) const {
    const fs::path file = world.remote() / "hooks" / name;
    write(file, "#!/bin/sh\n" + script + "\n");
    fs::permissions(file, fs::perms::owner_all);
  }
  // The one slot that a test uses.
  [[nodiscard]] fs::path slot() const {
    for (const auto& entry : fs::recursive_directory_iterator{world.cache()}) {
      if (entry.path().filename() == "ready") return entry.path().parent_path();
    }
    return {};
  }
};

TEST_F(GitFaults, ARewrittenHistoryIsNotAcceptedUnasked) {
  Repository store = repository();
  const std::string lost = store.transaction(&add_one).commit;
  World::run({"-C", world.foreign(), "commit", "-q", "--amend", "-m", "other"});
  World::run({"-C", world.foreign(), "push", "-q", "--force", "origin", "main"});
  std::string message;
  EXPECT_EQ(problem_of([&] { store.transaction(&add_one); }, &message), Problem::history_rewritten);
  EXPECT_TRUE(contains(message, "does not contain " + lost)) << message;
  EXPECT_TRUE(contains(message, "--accept-rewrite")) << message;
  // The commit can still be looked at where the message says.
  EXPECT_EQ(World::run({"-C", slot() / "tree", "show", lost + ":count"}), "1");
  // It stays refused, in another process as well, until it is accepted.
  Repository again = repository();
  EXPECT_EQ(problem_of([&] { again.transaction(&add_one); }), Problem::history_rewritten);
  options.accept_rewritten_history = true;
  Repository accepting = repository();
  accepting.transaction(&add_one);
  EXPECT_EQ(world.file("count"), "1");
  again.transaction(&add_one);
  EXPECT_EQ(world.file("count"), "2");
}

TEST_F(GitFaults, ABranchThatWasSetBackIsARewrittenHistory) {
  Repository store = repository();
  store.transaction(&add_one);
  world.at_remote({"update-ref", "refs/heads/main", "main~1"});
  EXPECT_EQ(problem_of([&] { store.transaction(&add_one); }), Problem::history_rewritten);
}

TEST_F(GitFaults, ABranchThatIsSetBackDuringTheTransformIsNotOverwritten) {
  Repository store = repository();
  store.transaction(&add_one);
  const std::string before = world.at_remote({"rev-parse", "main~1"});
  EXPECT_EQ(problem_of([&] {
              store.transaction([&](Transaction& change) {
                world.at_remote({"update-ref", "refs/heads/main", before});
                add_one(change);
              });
            }),
            Problem::history_rewritten);
  EXPECT_EQ(world.head(), before);
}

TEST_F(GitFaults, AMissingBranchIsNamed) {
  Repository store{world.remote(), "nowhere", {}, space, options};
  std::string message;
  EXPECT_EQ(problem_of([&] { store.transaction(&add_one); }, &message), Problem::branch_missing);
  EXPECT_TRUE(contains(message, "has no branch 'nowhere'")) << message;
}

TEST_F(GitFaults, AnEmptyRepositoryIsNotAMissingBranch) {
  World::run({"init", "-q", "--bare", world.path("empty.git")});
  Repository store{world.path("empty.git"), "main", {}, space, options};
  std::string message;
  EXPECT_EQ(problem_of([&] { store.transaction(&add_one); }, &message), Problem::repository_empty);
  EXPECT_TRUE(contains(message, "push a first one")) << message;
}

TEST_F(GitFaults, ARemoteThatIsNotThereIsReportedInGitsWords) {
  Repository store{world.path("nowhere.git"), "main", {}, space, options};
  std::string message;
  EXPECT_EQ(problem_of([&] { store.transaction(&add_one); }, &message), Problem::failed);
  EXPECT_TRUE(contains(message, "does not appear to be a git repository")) << message;
}

TEST_F(GitFaults, ARejectingHookIsNotRetried) {
  Repository store = repository();
  hook("pre-receive", "echo 'no pushes on Fridays' >&2; exit 1");
  int calls = 0;
  std::string message;
  EXPECT_EQ(problem_of(
                [&] {
                  store.transaction([&](Transaction& change) {
                    ++calls;
                    add_one(change);
                  });
                },
                &message),
            Problem::refused);
  EXPECT_EQ(calls, 1);
  EXPECT_TRUE(contains(message, "no pushes on Fridays")) << message;
  EXPECT_TRUE(contains(message, "pre-receive hook declined")) << message;
  fs::remove(world.remote() / "hooks/pre-receive");
  store.transaction(&add_one);
  EXPECT_EQ(world.file("count"), "1");
}

TEST_F(GitFaults, G04_ALostRaceAtTheRemoteIsRetried) {
  world.push_foreign("other", "x");
  const std::string other = world.head();
  world.at_remote({"update-ref", "refs/heads/main", "main~1"});
  Repository store = repository();
  // Between git's look at the branch and its change of it, the branch moves.
  hook("pre-receive",
       "test -e raced && exit 0; touch raced; unset GIT_QUARANTINE_PATH; "
       "git update-ref refs/heads/main " +
           other);
  const Outcome outcome = store.transaction(&add_one);
  EXPECT_EQ(outcome.attempts, 2U);
  EXPECT_EQ(world.file("count"), "1");
  EXPECT_EQ(world.file("other"), "x");
}

TEST_F(GitFaults, APushWithoutAnAnswerIsLookedUp) {
  Repository store = repository();
  hook("post-receive", "kill -9 $PPID");  // The branch has moved by now.
  const Outcome outcome = store.transaction(&add_one);
  EXPECT_EQ(outcome.commit, world.head());
  EXPECT_EQ(outcome.attempts, 1U);
  fs::remove(world.remote() / "hooks/post-receive");
  hook("pre-receive", "kill -9 $PPID");  // And here it has not.
  EXPECT_EQ(problem_of([&] { store.transaction(&add_one); }), Problem::failed);
  EXPECT_EQ(world.file("count"), "1");
  fs::remove(world.remote() / "hooks/pre-receive");
  store.transaction(&add_one);
  EXPECT_EQ(world.file("count"), "2");
}

TEST_F(GitFaults, APushWithoutAnAnswerToARemoteThatIsGoneIsUnknown) {
  Repository store = repository();
  hook("post-receive",
       "mv " + world.remote().string() + " " + world.path("away").string() + "; kill -9 $PPID");
  std::string message;
  EXPECT_EQ(problem_of([&] { store.transaction(&add_one); }, &message), Problem::unknown_outcome);
  EXPECT_TRUE(contains(message, "may be in it or not")) << message;
}

TEST_F(GitFaults, AGitThatHangsIsKilled) {
  hook("pre-receive", "exec sleep 1000");
  options.git_timeout = std::chrono::seconds{1};
  Repository store = repository();
  std::string message;
  EXPECT_EQ(problem_of([&] { store.transaction(&add_one); }, &message), Problem::failed);
  EXPECT_TRUE(contains(message, "'git receive-pack' was killed after 1s")) << message;
}

TEST_F(GitFaults, ALockThatIsLostStopsThePush) {
  Repository store = repository();
  EXPECT_EQ(problem_of([&] {
              store.transaction([&](Transaction& change) {
                EXPECT_TRUE(space.evict_now(change.token()));
                add_one(change);
              });
            }),
            Problem::lock_lost);
  EXPECT_EQ(world.file("count"), "0");
}

TEST_F(GitFaults, AMissingGitIsToldApart) {
  const std::string path = std::getenv("PATH");  // NOLINT(concurrency-mt-unsafe)
  World::set("PATH", world.path("home"));
  Repository store = repository();  // Its guardian has the PATH of now.
  std::string message;
  EXPECT_EQ(problem_of([&] { store.transaction(&add_one); }, &message), Problem::failed);
  World::set("PATH", path);
  EXPECT_TRUE(contains(message, "install git")) << message;
}

TEST_F(GitFaults, G01_G02_StaleLocksOfOursAreRemoved) {
  Repository store = repository();
  store.transaction(&add_one);
  const fs::path home = slot() / "home.git";
  fs::path admin;
  for (const auto& entry : fs::directory_iterator{home / "worktrees"}) admin = entry.path();
  // Every lock file that a killed git may leave.
  for (const char* name : {"index.lock", "HEAD.lock", "FETCH_HEAD.lock", "ORIG_HEAD.lock"}) {
    write(admin / name, "");
  }
  for (const char* name :
       {"HEAD.lock", "packed-refs.lock", "config.lock", "shallow.lock", "refs/heads/main.lock"}) {
    write(home / name, "");
  }
  store.transaction(&add_one);
  EXPECT_EQ(world.file("count"), "2");
  for (const auto& entry : fs::recursive_directory_iterator{slot()}) {
    EXPECT_NE(entry.path().extension(), ".lock") << entry.path();
  }
  // Also one that a git of the transform leaves.
  store.transaction([&](Transaction& change) {
    write(admin / "index.lock", "");
    add_one(change);
  });
  EXPECT_EQ(world.file("count"), "3");
}

TEST_F(GitFaults, G01_G03_AStaleLockAtTheRemoteIsReportedWithItsAgeAndOwner) {
  const fs::path lock = world.remote() / "refs/heads/main.lock";
  write(lock, "");
  Repository store = repository();
  std::string message;
  // A fresh one may belong to a push that runs: it is waited for.
  EXPECT_EQ(problem_of([&] { store.transaction(&add_one); }, &message), Problem::locked);
  EXPECT_TRUE(contains(message, "gave up after 4 attempts")) << message;
  fs::last_write_time(lock, fs::file_time_type::clock::now() - std::chrono::hours{264});
  EXPECT_EQ(problem_of([&] { store.transaction(&add_one); }, &message), Problem::locked);
  EXPECT_TRUE(contains(message, "main.lock' of user ")) << message;
  EXPECT_TRUE(contains(message, "11d")) << message;
  fs::remove(lock);
  EXPECT_EQ(store.transaction(&add_one).attempts, 1U);
}

TEST_F(GitFaults, ADamagedWorktreeIsMadeAnew) {
  Repository store = repository();
  store.transaction([](Transaction& change) {
    add_one(change);
    fs::remove(change.directory() / ".git");
  });
  store.transaction(&add_one);
  fs::remove_all(slot() / "home.git" / "worktrees");
  store.transaction(&add_one);
  fs::remove_all(slot() / "tree");
  store.transaction(&add_one);
  fs::remove_all(slot());
  store.transaction(&add_one);
  EXPECT_EQ(world.file("count"), "5");
}

}  // namespace
}  // namespace tenure::git
