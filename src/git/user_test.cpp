// What belongs to the person: working copies, hooks, signatures, filters, identities.
#include <gtest/gtest.h>

#include <string>

#include "git/world_test.hpp"

namespace tenure::git {
namespace {

using kit::contains;

class GitUser : public testing::Test {
 protected:
  World world;
  Space space = open("local:");
  Options options = [] {
    Options out;
    out.sleep = [](std::chrono::nanoseconds) {};
    return out;
  }();
  fs::path copy = world.path("copy");
  [[nodiscard]] Repository repository() { return {world.remote(), "main", copy, space, options}; }
  std::string in_copy(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), {"-C", copy.string()});
    return World::run(std::move(arguments));
  }
  // The transaction is refused for the working copy, and nothing changes anywhere.
  std::string refused(Repository& store) {
    const std::string head = world.head();
    std::string message;
    EXPECT_EQ(problem_of([&] { store.transaction(&add_one); }, &message), Problem::working_copy);
    EXPECT_EQ(world.head(), head);
    return message;
  }
  void local_hook(const std::string& name, const std::string& script) const {
    const fs::path file = copy / ".git/hooks" / name;
    write(file, "#!/bin/sh\n" + script + "\n");
    fs::permissions(file, fs::perms::owner_all);
  }
};

TEST_F(GitUser, UncommittedChangesAreNeverOverwritten) {
  Repository store = repository();
  store.transaction(&add_one);
  write(copy / "count", "my draft");
  const std::string message = refused(store);
  EXPECT_TRUE(contains(message, "would be overwritten: 'count'")) << message;
  EXPECT_TRUE(contains(message, "checkpoint()")) << message;
  EXPECT_EQ(read(copy / "count"), "my draft");
  // Changes elsewhere are in nobody's way.
  in_copy({"checkout", "-q", "count"});
  write(copy / "draft", "mine");
  store.transaction(&add_one);
  EXPECT_EQ(read(copy / "draft"), "mine");
  EXPECT_EQ(read(copy / "count"), "2");
  EXPECT_EQ(in_copy({"status", "--porcelain"}), "?? draft");
}

TEST_F(GitUser, AnUntrackedFileInTheWayIsKept) {
  Repository store = repository();
  store.transaction(&add_one);
  write(copy / "new", "mine");
  std::string message;
  EXPECT_EQ(problem_of(
                [&] {
                  store.transaction(
                      [](Transaction& change) { write(change.directory() / "new", "theirs"); });
                },
                &message),
            Problem::working_copy);
  EXPECT_EQ(read(copy / "new"), "mine");
  EXPECT_EQ(world.commits(), 2U);
}

TEST_F(GitUser, CommitsOfItsOwnAndOtherBranchesAreReported) {
  Repository store = repository();
  store.transaction(&add_one);
  write(copy / "own", "x");
  in_copy({"add", "-A"});
  in_copy({"commit", "-q", "-m", "own"});
  EXPECT_TRUE(contains(refused(store), "has commits that the remote does not have"));
  in_copy({"reset", "-q", "--hard", "HEAD~1"});
  in_copy({"switch", "-q", "-c", "topic"});
  EXPECT_TRUE(contains(refused(store), "git switch main"));
  in_copy({"switch", "-q", "main"});
  store.transaction(&add_one);
  EXPECT_EQ(read(copy / "count"), "2");
}

TEST_F(GitUser, AWorkingCopyThatIsNoneIsReported) {
  write(copy / "file", "x");
  Repository store = repository();
  std::string message;
  EXPECT_EQ(problem_of([&] { store.transaction(&add_one); }, &message), Problem::failed);
  EXPECT_TRUE(contains(message, "cannot open the repository")) << message;
  EXPECT_EQ(read(copy / "file"), "x");
}

TEST_F(GitUser, G01_G02_ALockOfAnotherGitIsReportedWithItsAgeAndOwner) {
  Repository store = repository();
  store.transaction(&add_one);
  for (const char* name : {"index.lock", "HEAD.lock", "refs/heads/main.lock", "packed-refs.lock"}) {
    const fs::path lock = copy / ".git" / name;
    write(lock, "");
    fs::last_write_time(lock, fs::file_time_type::clock::now() - std::chrono::hours{265});
    std::string message;
    EXPECT_EQ(problem_of([&] { store.transaction(&add_one); }, &message), Problem::locked);
    EXPECT_TRUE(contains(message, lock.string() + "' of user ")) << message;
    EXPECT_TRUE(contains(message, "11d")) << message;
    EXPECT_TRUE(fs::exists(lock));
    fs::remove(lock);
  }
  EXPECT_EQ(store.transaction(&add_one).working_copy_note, "");
  EXPECT_EQ(world.file("count"), "2");
}

TEST_F(GitUser, AGitThatRunsInTheWorkingCopyIsWaitedFor) {
  const fs::path lock = copy / ".git/index.lock";
  int waits = 0;
  options.sleep = [&](std::chrono::nanoseconds) {
    if (++waits == 3) fs::remove(lock);
  };
  Repository store = repository();
  store.transaction(&add_one);
  write(lock, "");
  store.transaction(&add_one);
  EXPECT_EQ(waits, 3);
  EXPECT_EQ(world.file("count"), "2");
}

TEST_F(GitUser, ACrashBetweenPushAndWorkingCopyHealsItself) {
  Repository store = repository();
  store.transaction(&add_one);
  // The files of a checkpoint are at the remote, and the branch here was not moved.
  write(copy / "count", "7");
  world.push_foreign("count", "7");
  EXPECT_EQ(store.checkpoint("again").commit, "");
  EXPECT_EQ(in_copy({"rev-parse", "HEAD"}), world.head());
  EXPECT_EQ(in_copy({"status", "--porcelain"}), "");
}

// Killed while it wrote the files of an update; then others pushed.
TEST_F(GitUser, AnUpdateThatWasCutOffIsFinished) {
  Repository store = repository();
  store.transaction(&add_one);
  int next = 100;
  for (const std::string left : {"55", "5", "7", "mine"}) {
    world.push_foreign("count", "55");
    in_copy({"fetch", "-q"});
    write(copy / ".git/tenure-following", world.head());
    world.push_foreign("count", std::to_string(next));
    write(copy / "count", left);
    if (!std::string{"55"}.starts_with(left)) {  // A person wrote that.
      EXPECT_TRUE(contains(refused(store), "would be overwritten: 'count'"));
      EXPECT_EQ(read(copy / "count"), left);
      in_copy({"checkout", "-q", "count"});
    }
    store.transaction(&add_one);
    EXPECT_EQ(read(copy / "count"), std::to_string(next + 1));
    EXPECT_EQ(in_copy({"status", "--porcelain"}), "");
    EXPECT_FALSE(fs::exists(copy / ".git/tenure-following"));
    next += 100;
  }
}

TEST_F(GitUser, HooksOfTheWorkingCopyRun) {
  Repository store = repository();
  store.transaction(&add_one);
  local_hook("pre-commit", "test \"$(cat count)\" != 3 || { echo 'not three' >&2; exit 1; }");
  local_hook("commit-msg", "echo 'Hook: yes' >>\"$1\"");
  store.transaction(&add_one);
  EXPECT_TRUE(contains(world.at_remote({"log", "-1", "--format=%B", "main"}), "Hook: yes"));
  const std::string head = world.head();
  std::string message;
  EXPECT_EQ(problem_of([&] { store.transaction(&add_one); }, &message), Problem::rejected_here);
  EXPECT_TRUE(contains(message, "not three")) << message;
  EXPECT_EQ(world.head(), head);
  // A checkpoint goes the same way.
  write(copy / "count", "3");
  EXPECT_EQ(problem_of([&] { store.checkpoint("three"); }), Problem::rejected_here);
  write(copy / "count", "4");
  store.checkpoint("four");
  EXPECT_EQ(world.file("count"), "4");
  EXPECT_EQ(in_copy({"status", "--porcelain"}), "");
  local_hook("pre-push", "echo 'not now' >&2; exit 1");
  EXPECT_NE(problem_of([&] { store.transaction(&add_one); }, &message), Problem::branch_moved);
  EXPECT_TRUE(contains(message, "not now")) << message;
  EXPECT_EQ(world.file("count"), "4");
}

TEST_F(GitUser, CommitsAreSignedAsConfigured) {
  const std::string key = world.path("key");
  kit::run({"ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key});
  write(world.path("signers"), "test@example.org " + read(key + ".pub"));
  World::run({"config", "--global", "gpg.format", "ssh"});
  World::run({"config", "--global", "user.signingkey", key});
  World::run({"config", "--global", "gpg.ssh.allowedSignersFile", world.path("signers")});
  World::run({"config", "--global", "commit.gpgsign", "true"});
  Repository store{world.remote(), "main", {}, space, options};
  const Outcome outcome = store.transaction(&add_one);
  EXPECT_EQ(world.at_remote({"log", "-1", "--format=%G?", outcome.commit}), "G");
  EXPECT_EQ(world.file("count"), "1");
  World::run({"config", "--global", "user.signingkey", world.path("nowhere")});
  EXPECT_EQ(problem_of([&] { store.transaction(&add_one); }), Problem::rejected_here);
}

TEST_F(GitUser, FilterDriversAreGits) {
  World::run({"config", "--global", "filter.upper.clean", "tr a-z A-Z"});
  World::run({"config", "--global", "filter.upper.smudge", "tr A-Z a-z"});
  world.push_foreign(".gitattributes", "*.up filter=upper\n");
  Repository store{world.remote(), "main", {}, space, options};
  store.transaction([](Transaction& change) { write(change.directory() / "a.up", "text"); });
  EXPECT_EQ(world.file("a.up"), "TEXT");
  store.transaction([](Transaction& change) {
    EXPECT_EQ(read(change.directory() / "a.up"), "text");
    add_one(change);
  });
  // libgit2 could not update a working copy through them.
  Repository followed = repository();
  std::string message;
  EXPECT_EQ(problem_of([&] { followed.transaction(&add_one); }, &message), Problem::working_copy);
  EXPECT_TRUE(contains(message, "git-lfs")) << message;
}

TEST_F(GitUser, LineEndingsFollowTheConfigurationThatGitReads) {
  World::run({"config", "--global", "core.autocrlf", "input"});
  Repository store{world.remote(), "main", {}, space, options};
  store.transaction([](Transaction& change) { write(change.directory() / "dos", "a\r\nb\r\n"); });
  EXPECT_EQ(world.file("dos"), "a\nb");
}

TEST_F(GitUser, IdentitiesComeFromOptionsEnvironmentAndConfiguration) {
  const auto who = [this] {
    return world.at_remote({"log", "-1", "--format=%an <%ae>|%cn <%ce>", "main"});
  };
  World::set("GIT_AUTHOR_NAME", "Ann");
  Repository by_environment{world.remote(), "main", {}, space, options};
  by_environment.transaction(&add_one);
  EXPECT_EQ(who(), "Ann <test@example.org>|Test <test@example.org>");
  ::unsetenv("GIT_AUTHOR_NAME");  // NOLINT(concurrency-mt-unsafe)
  options.author = {.name = "Service", .email = "service@example.org"};
  Repository by_options{world.remote(), "main", {}, space, options};
  by_options.transaction(&add_one);
  EXPECT_EQ(who(), "Service <service@example.org>|Test <test@example.org>");
  // Nobody: git says so.
  World::run({"config", "--global", "--remove-section", "user"});
  World::run({"config", "--global", "user.useConfigOnly", "true"});
  Repository nameless{world.remote(), "main", {}, space, options};
  nameless.transaction(&add_one);
  EXPECT_EQ(who(), "Service <service@example.org>|Service <service@example.org>");
  options.author = {};
  Repository nobody{world.remote(), "main", {}, space, options};
  std::string message;
  EXPECT_EQ(problem_of([&] { nobody.transaction(&add_one); }, &message), Problem::failed);
  EXPECT_TRUE(contains(message, "Please tell me who you are")) << message;
}

TEST_F(GitUser, BadNamesAndOptionsAreRefusedAtOnce) {
  EXPECT_THROW((Repository{world.remote(), "a b", {}, space}), BadRequest);
  EXPECT_THROW((Repository{"", "main", {}, space}), BadRequest);
  EXPECT_THROW((Repository{"--upload-pack=x", "main", {}, space}), BadRequest);
  options.max_attempts = 0;
  EXPECT_THROW((Repository{world.remote(), "main", {}, space, options}), BadRequest);
  Repository without{world.remote(), "main", {}, space};
  EXPECT_THROW(without.checkpoint("x"), BadRequest);
}

TEST_F(GitUser, FindsTheUpstreamOfADirectory) {
  const Upstream here = find_upstream(world.foreign());
  EXPECT_EQ(here.remote, world.remote());
  EXPECT_EQ(here.branch, "main");
  EXPECT_EQ(fs::canonical(here.repository), fs::canonical(world.foreign()));
  World::run({"-C", world.foreign(), "remote", "set-url", "--push", "origin", "host:x.git"});
  EXPECT_EQ(find_upstream(world.foreign()).push_remote, "host:x.git");
  World::run({"-C", world.foreign(), "checkout", "-q", "--detach"});
  EXPECT_EQ(problem_of([&] { (void)find_upstream(world.foreign()); }), Problem::branch_missing);
  EXPECT_EQ(problem_of([&] { (void)find_upstream("/"); }), Problem::failed);
}

}  // namespace
}  // namespace tenure::git
