// Remotes that are reached over a connection: git's smart HTTP, and ssh.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "git/world_test.hpp"
#include "tests/kit/git_http.hpp"
#include "tests/kit/sshd.hpp"

namespace tenure::git {
namespace {

using kit::contains;

Options quick() {
  Options out;
  out.sleep = [](std::chrono::nanoseconds) {};
  return out;
}

// A few changes, a foreign one in between, one lost race.
void use(const World& world, const std::string& url) {
  const Space space = open("local:");
  Repository store{url, "main", {}, space, quick()};
  EXPECT_EQ(store.transaction(&add_one).attempts, 1U);
  world.push_foreign("other", "x");
  EXPECT_EQ(store.transaction(&add_one).attempts, 1U);
  const Outcome outcome = store.transaction([&](Transaction& change) {
    if (change.attempt() == 1) world.push_foreign("third", "x");
    EXPECT_TRUE(fs::exists(change.directory() / "other"));
    add_one(change);
  });
  EXPECT_EQ(outcome.attempts, 2U);
  EXPECT_EQ(world.file("count"), "3");
  EXPECT_EQ(world.commits(), 6U);
  world.at_remote({"fsck", "--strict"});
}

bool is_shallow(const World& world) {
  for (const auto& entry : fs::recursive_directory_iterator{world.cache()}) {
    if (entry.path().filename() == "shallow") return true;
  }
  return false;
}

TEST(GitHttp, PushesThroughHttpBackendWithACredentialHelper) {
  const World world;
  for (int i = 0; i < 3; ++i) world.push_foreign("old", std::to_string(i));
  world.at_remote({"update-ref", "refs/heads/main", "main~3"});
  World::run({"-C", world.foreign(), "reset", "-q", "--hard", "HEAD~3"});
  kit::GitHttp server{world.path("."), "ann", "secret"};
  server.restart();
  World::run({"config", "--global", "credential.helper",
              "!f() { test \"$1\" = get && echo username=ann && echo password=secret; }; f"});
  use(world, server.url("remote.git"));
  // The first fetch leaves the history out.
  EXPECT_TRUE(is_shallow(world));
}

TEST(GitHttp, AsksTheProgramThatTheEnvironmentNames) {
  const World world;
  kit::GitHttp server{world.path("."), "ann", "secret"};
  server.restart();
  write(world.path("ask"), "#!/bin/sh\ncase $1 in User*) echo ann;; *) echo secret;; esac\n");
  fs::permissions(world.path("ask"), fs::perms::owner_all);
  World::set("GIT_ASKPASS", world.path("ask"));
  const Space space = open("local:");
  Repository store{server.url("remote.git"), "main", {}, space, quick()};
  store.transaction(&add_one);
  EXPECT_EQ(world.file("count"), "1");
  ::unsetenv("GIT_ASKPASS");  // NOLINT(concurrency-mt-unsafe)
}

TEST(GitHttp, MissingCredentialsAndReadOnlyRemotesAreRefusals) {
  const World world;
  const Space space = open("local:");
  std::string message;
  {
    kit::GitHttp asks{world.path("."), "ann", "secret"};
    asks.restart();
    Repository store{asks.url("remote.git"), "main", {}, space, quick()};
    EXPECT_EQ(problem_of([&] { store.transaction(&add_one); }, &message), Problem::refused);
    EXPECT_TRUE(contains(message, "could not read Username")) << message;
  }
  kit::GitHttp open_to_all{world.path(".")};
  open_to_all.restart();
  Repository store{open_to_all.url("remote.git"), "main", {}, space, quick()};
  EXPECT_EQ(problem_of([&] { store.transaction(&add_one); }, &message), Problem::refused);
  EXPECT_TRUE(contains(message, "403")) << message;
  Repository missing{open_to_all.url("remote.git"), "nowhere", {}, space, quick()};
  EXPECT_EQ(problem_of([&] { missing.transaction(&add_one); }), Problem::branch_missing);
  World::run({"init", "-q", "--bare", world.path("empty.git")});
  Repository empty{open_to_all.url("empty.git"), "main", {}, space, quick()};
  EXPECT_EQ(problem_of([&] { empty.transaction(&add_one); }), Problem::repository_empty);
}

TEST(GitHttp, AServerThatDiesIsReportedAndForgiven) {
  const World world;
  kit::GitHttp server{world.path("."), "ann", "secret"};
  server.restart();
  World::run({"config", "--global", "credential.helper",
              "!f() { test \"$1\" = get && echo username=ann && echo password=secret; }; f"});
  const Space space = open("local:");
  Repository store{server.url("remote.git"), "main", {}, space, quick()};
  store.transaction(&add_one);
  EXPECT_EQ(problem_of([&] {
              store.transaction([&](Transaction& change) {
                add_one(change);
                server.kill();
              });
            }),
            Problem::unknown_outcome);
  EXPECT_EQ(problem_of([&] { store.transaction(&add_one); }), Problem::failed);
  server.restart();
  store.transaction(&add_one);
  EXPECT_EQ(world.file("count"), "2");
}

TEST(GitHttp, ARewrittenHistoryIsSeenThroughAShallowRepository) {
  const World world;
  world.push_foreign("more", "x");
  World::run({"-C", world.remote(), "config", "http.receivepack", "true"});
  kit::GitHttp server{world.path(".")};
  server.restart();
  const Space space = open("local:");
  Repository store{server.url("remote.git"), "main", {}, space, quick()};
  store.transaction(&add_one);
  World::run({"-C", world.foreign(), "commit", "-q", "--amend", "-m", "other"});
  World::run({"-C", world.foreign(), "push", "-q", "--force", "origin", "main"});
  EXPECT_EQ(problem_of([&] { store.transaction(&add_one); }), Problem::history_rewritten);
  Options accepting = quick();
  accepting.accept_rewritten_history = true;
  Repository again{server.url("remote.git"), "main", {}, space, accepting};
  again.transaction(&add_one);
  EXPECT_EQ(world.file("count"), "1");
}

TEST(GitSsh, PushesWithAKeyOfTheAgent) {
  const World world;
  kit::Sshd server;
  server.restart();
  kit::SshAgent agent{server.key()};
  agent.restart();
  agent.load();
  World::set("GIT_SSH_COMMAND", server.client());
  World::set("SSH_AUTH_SOCK", agent.socket());
  use(world, server.url(world.remote()));
}

TEST(GitSsh, AKeyThatIsNotAcceptedIsARefusal) {
  const World world;
  kit::Sshd server;
  server.restart();
  kit::run({"ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", world.path("other_key")});
  World::set("GIT_SSH_COMMAND", server.client(world.path("other_key")));
  const Space space = open("local:");
  Repository store{server.url(world.remote()), "main", {}, space, quick()};
  std::string message;
  EXPECT_EQ(problem_of([&] { store.transaction(&add_one); }, &message), Problem::refused);
  EXPECT_TRUE(contains(message, "Permission denied (publickey)")) << message;
  World::set("GIT_SSH_COMMAND", server.client(server.key()));
  Repository with_key{server.url(world.remote()), "main", {}, space, quick()};
  with_key.transaction(&add_one);
  EXPECT_EQ(world.file("count"), "1");
}

}  // namespace
}  // namespace tenure::git
