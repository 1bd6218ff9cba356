#include "git/words.hpp"

#include <gtest/gtest.h>

#include <string>

namespace tenure::git {
namespace {

PushResult result_of(const std::string& summary, const std::string& errors = {}) {
  return read_push(1, "To /r.git\n!\tabc:refs/heads/main\t" + summary + "\nDone\n", errors).result;
}

TEST(GitWords, APushThatEndedWithZeroIsPushed) {
  EXPECT_EQ(read_push(0, "", "").result, PushResult::pushed);
}

TEST(GitWords, OnlyAMovedBranchIsALostRace) {
  EXPECT_EQ(result_of("[rejected] (stale info)"), PushResult::moved);
  EXPECT_EQ(result_of("[rejected] (fetch first)"), PushResult::moved);
  EXPECT_EQ(result_of("[rejected] (non-fast-forward)"), PushResult::moved);
  EXPECT_EQ(result_of("[remote rejected] (incorrect old value provided)"), PushResult::moved);
  EXPECT_EQ(result_of("[remote rejected] (failed to update ref)",
                      "remote: error: cannot lock ref 'refs/heads/main': is at 12 but expected 34"),
            PushResult::moved);
  EXPECT_EQ(result_of("[remote rejected] (pre-receive hook declined)"), PushResult::refused);
  EXPECT_EQ(result_of("[remote rejected] (branch is currently checked out)"), PushResult::refused);
  EXPECT_EQ(result_of("[remote rejected] (failed to update ref)", "remote: Permission denied"),
            PushResult::refused);
  EXPECT_EQ(result_of("[remote rejected] (unpacker error)"), PushResult::refused);
}

TEST(GitWords, ALockFileAtTheRemoteIsToldApart) {
  EXPECT_EQ(result_of("[remote rejected] (failed to update ref)",
                      "remote: error: cannot lock ref 'refs/heads/main': Unable to create "
                      "'/r/refs/heads/main.lock': File exists."),
            PushResult::locked);
}

TEST(GitWords, AConnectionThatBrokeHasAnUnknownOutcome) {
  EXPECT_EQ(read_push(128, "", "fatal: the remote end hung up unexpectedly").result,
            PushResult::unknown);
  EXPECT_EQ(result_of("[remote failure] (remote failed to report status)"), PushResult::unknown);
}

TEST(GitWords, AFullDiskIsToldApart) {
  const PushVerdict verdict = read_push(1, "!\ta:b\t[remote rejected] (unpacker error)\n",
                                        "remote: fatal: write error: No space left on device");
  EXPECT_EQ(verdict.result, PushResult::refused);
  EXPECT_EQ(verdict.problem, Problem::disk_full);
}

TEST(GitWords, ProblemsAreFoundInWhatGitSaid) {
  EXPECT_EQ(problem_in("fatal: couldn't find remote ref refs/heads/x"), Problem::branch_missing);
  EXPECT_EQ(problem_in("fatal: Unable to create '/x/index.lock': File exists."), Problem::locked);
  EXPECT_EQ(problem_in("git@host: Permission denied (publickey)."), Problem::refused);
  EXPECT_EQ(problem_in("error: gpg failed to sign the data"), Problem::rejected_here);
  EXPECT_EQ(problem_in("something else"), Problem::failed);
}

TEST(GitWords, TheEssenceHasNoHintsAndIsOneLine) {
  EXPECT_EQ(essence("hint: try this\nremote: no.        \nremote:\n\nerror: bad\n"),
            "remote: no.; error: bad");
  EXPECT_EQ(essence(""), "git gave no reason");
  EXPECT_EQ(essence(std::string(5000, 'x')).size(), 1000U);
}

TEST(GitWords, TheTokenJoinsTheTrailersOfTheMessage) {
  EXPECT_EQ(with_token("Subject", Token{7}), "Subject\n\nTenure-Token: 7\n");
  EXPECT_EQ(with_token("Subject\n\nBody: not\nall trailers\n", Token{7}),
            "Subject\n\nBody: not\nall trailers\n\nTenure-Token: 7\n");
  EXPECT_EQ(with_token("Subject\n\nBody\n\nSigned-off-by: A <a@b>\n\n", Token{7}),
            "Subject\n\nBody\n\nSigned-off-by: A <a@b>\nTenure-Token: 7\n");
  EXPECT_EQ(with_token("Fix: this", Token{7}), "Fix: this\n\nTenure-Token: 7\n");
}

TEST(GitWords, ARemoteIsAPathOrNeedsAConnection) {
  EXPECT_EQ(local_path("/a/b.git"), "/a/b.git");
  EXPECT_EQ(local_path("../b.git"), "../b.git");
  EXPECT_EQ(local_path("file:///a/b"), "/a/b");
  EXPECT_EQ(local_path("./a:b"), "./a:b");
  EXPECT_FALSE(local_path("host:b.git"));
  EXPECT_FALSE(local_path("git@host:b.git"));
  EXPECT_FALSE(local_path("https://host/b.git"));
  EXPECT_FALSE(local_path("helper::address"));
}

TEST(GitWords, SpellingsOfARemoteAreOneLock) {
  EXPECT_EQ(canonical_remote("https://ann:secret@host/x.git/"), "https://host/x");
  EXPECT_EQ(canonical_remote("ssh://git@host/x.git"), "ssh://git@host/x");
  EXPECT_EQ(canonical_remote("/nowhere/../nowhere/x.git"), "/nowhere/x");
  EXPECT_EQ(canonical_remote("file:///nowhere/x"), "/nowhere/x");
  EXPECT_EQ(canonical_remote("/nowhere/.git"), "/nowhere/.git");
}

TEST(GitWords, APasswordIsNeverShown) {
  EXPECT_EQ(shown_remote("https://ann:secret@host/x"), "https://host/x");
  EXPECT_EQ(shown_remote("https://token@host/x"), "https://host/x");
  EXPECT_EQ(shown_remote("ssh://ann:secret@host:22/x"), "ssh://ann@host:22/x");
  EXPECT_EQ(shown_remote("https://a:b@c@host"), "https://host");
}

TEST(GitWords, NamesOfBranchesAreGits) {
  for (const char* good : {"main", "a/b", "release-1.2", "a@b"}) {
    EXPECT_NO_THROW(check_branch_name(good)) << good;
  }
  for (const char* bad : {"", "-x", "a b", "a..b", "a~1", "a:b", "a.lock", "/a", "a/", "a//b", ".a",
                          "a/.b", "@", "a@{1}", "a\\b", "a\n", "x.lock/y"}) {
    EXPECT_THROW(check_branch_name(bad), BadRequest) << bad;
  }
}

}  // namespace
}  // namespace tenure::git
