#include "git/settings.hpp"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

namespace tenure::git {
namespace {

using namespace std::string_view_literals;

TEST(GitSettings, TheLastValueCounts) {
  EXPECT_TRUE(parse_settings("commit.gpgsign\nfalse\0commit.gpgsign\ntrue\0"sv).signs);
  EXPECT_FALSE(parse_settings("commit.gpgsign\ntrue\0commit.gpgsign\nfalse\0"sv).signs);
  EXPECT_TRUE(parse_settings("commit.gpgsign\0"sv).signs);
  EXPECT_FALSE(parse_settings(""sv).signs);
}

TEST(GitSettings, FiltersAndHooksAreNoticed) {
  EXPECT_TRUE(parse_settings("filter.lfs.process\ngit-lfs filter-process\0"sv).filters);
  EXPECT_FALSE(parse_settings("filter.lfs.required\ntrue\0"sv).filters);
  EXPECT_EQ(parse_settings("core.hookspath\n~/hooks\0"sv).hooks_path, "~/hooks");
}

TEST(GitSettings, LibgitGetsTheCoreSectionQuoted) {
  const UserSettings settings = parse_settings(
      "core.autocrlf\ninput\0core.excludesfile\na \"b\"\nc\\\0core.bare\ntrue\0user.name\nA\0"sv);
  EXPECT_EQ(settings.core,
            "[core]\n\tautocrlf = \"input\"\n\texcludesfile = \"a \\\"b\\\"\\nc\\\\\"\n");
}

TEST(GitSettings, AnIdentityIsReadFromItsText) {
  const Identity ann = parse_identity("Ann <of> X <ann@host> 1700000000 +0100\n");
  EXPECT_EQ(ann.name, "Ann <of> X");
  EXPECT_EQ(ann.email, "ann@host");
  EXPECT_THROW((void)parse_identity("nobody"), GitError);
  EXPECT_THROW((void)parse_identity("> <"), GitError);
}

}  // namespace
}  // namespace tenure::git
