// docs/git.md: the first transaction.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "tenure/git.hpp"
#include "tenure/tenure.hpp"
#include "tests/kit/process.hpp"
#include "tests/kit/scratch.hpp"

namespace {

namespace fs = std::filesystem;

TEST(GitGuide, ATransactionAndACheckpoint) {
  const tenure::kit::TemporaryDirectory directory;
  const fs::path before = fs::current_path();
  fs::current_path(directory.path());
  for (const auto& [name, value] : {std::pair{"HOME", directory.path().string()},
                                    {"GIT_CONFIG_NOSYSTEM", "1"},
                                    {"XDG_CACHE_HOME", (directory / "cache").string()},
                                    {"GIT_CONFIG_GLOBAL", (directory / "gitconfig").string()}}) {
    ::setenv(name, value.c_str(), 1);
  }
  std::ofstream{directory / "gitconfig"}
      << "[user]\n\tname = Test\n\temail = test@example.org\n[init]\n\tdefaultBranch = main\n";
  const std::string remote = directory / "remote.git";
  tenure::kit::run({"git", "init", "-q", "--bare", remote});
  tenure::kit::run({"git", "clone", "-q", remote, directory / "first"});
  tenure::kit::run({"git", "-C", directory / "first", "commit", "-q", "--allow-empty", "-m", "x"});
  tenure::kit::run({"git", "-C", directory / "first", "push", "-q", "origin", "HEAD:main"});
  // SNIPPET
  EXPECT_EQ(tenure::kit::run({"git", "-C", remote, "show", "main:version"}), "7\n");
  EXPECT_EQ(tenure::kit::run({"git", "-C", remote, "log", "-1", "--format=%s", "main"}),
            "Release 7\n");
  fs::current_path(before);
}

}  // namespace
