#include "process/find_command.hpp"

#include <gtest/gtest.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "tests/kit/scratch.hpp"

namespace tenure::process {
namespace {

TEST(FindCommand, LooksAsAShellDoes) {
  const kit::TemporaryDirectory directory;
  std::ofstream{directory / "plain"} << "true\n";
  std::ofstream{directory / "runs"} << "true\n";
  std::filesystem::permissions(directory / "runs", std::filesystem::perms::owner_all);
  EXPECT_EQ(find_command("sh"), 0);
  EXPECT_EQ(find_command("/bin/sh"), 0);
  EXPECT_EQ(find_command(""), ENOENT);
  EXPECT_EQ(find_command("no-such-command-anywhere"), ENOENT);
  EXPECT_EQ(find_command(directory / "plain"), EACCES);
  EXPECT_EQ(find_command(directory.path()), EACCES);
  const std::string before = std::getenv("PATH");  // NOLINT(concurrency-mt-unsafe): one thread.
  ::setenv("PATH", ("/no/such/directory:" + directory.path().string()).c_str(), 1);  // NOLINT
  EXPECT_EQ(find_command("runs"), 0);
  EXPECT_EQ(find_command("plain"), EACCES);
  EXPECT_EQ(find_command("sh"), ENOENT);
  ::setenv("PATH", before.c_str(), 1);  // NOLINT(concurrency-mt-unsafe): one thread.
}

}  // namespace
}  // namespace tenure::process
