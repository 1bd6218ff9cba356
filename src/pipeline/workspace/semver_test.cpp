#include "pipeline/workspace/semver.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace tenure::pipeline {
namespace {

std::string answer(std::string_view range, std::string_view version) {
  const auto includes = range_includes(range, Version::parse(version).value());
  if (!includes) return "not a range";
  return *includes ? "yes" : "no";
}

TEST(Semver, OrdersVersions) {
  const std::vector<std::string> ordered{
      "0.9.9",      "1.0.0-alpha",  "1.0.0-alpha.1", "1.0.0-alpha.beta",
      "1.0.0-beta", "1.0.0-beta.2", "1.0.0-beta.11", "1.0.0-rc.1",
      "1.0.0",      "1.0.1",        "1.10.0",        "2.0.0"};
  for (std::size_t i = 0; i < ordered.size(); ++i) {
    for (std::size_t j = 0; j < ordered.size(); ++j) {
      EXPECT_EQ(Version::parse(ordered[i]).value() <=> Version::parse(ordered[j]).value(), i <=> j)
          << ordered[i] << " and " << ordered[j];
    }
  }
  EXPECT_EQ(Version::parse("v1.2.3+build.5"), Version::parse("1.2.3"));
  for (const std::string_view text : {"", "1", "1.2", "1.2.x", "1.2.3.4", "1.2.3-", "1.2.3-a..b",
                                      "a.b.c", "1.2.3+'", "99999999999999999999.0.0"}) {
    EXPECT_EQ(Version::parse(text), std::nullopt) << text;
  }
}

TEST(Semver, RangesIncludeWhatNpmSays) {
  for (const auto& [range, version] :
       std::vector<std::pair<std::string, std::string>>{{"^1.2.3", "1.9.0"},
                                                        {"^0.2.3", "0.2.9"},
                                                        {"^0.0.3", "0.0.3"},
                                                        {"^1.x", "1.0.0"},
                                                        {"^0.0", "0.0.7"},
                                                        {"~1.2.3", "1.2.9"},
                                                        {"~1", "1.9.9"},
                                                        {"1.2", "1.2.7"},
                                                        {"1.x.x", "1.2.3"},
                                                        {"*", "9.9.9"},
                                                        {"", "0.0.1"},
                                                        {">=1 <3", "2.9.9"},
                                                        {">= 1.0.0", "1.0.0"},
                                                        {"1.2.3 - 2.3", "2.3.9"},
                                                        {"<1 || ^2", "2.5.0"},
                                                        {"<=1.2", "1.2.9"},
                                                        {">1.2", "1.3.0"},
                                                        {"=1.2.3", "1.2.3"},
                                                        {"v1.2.3", "1.2.3"},
                                                        {"^1.2.3-beta.2", "1.2.3-beta.4"},
                                                        {"^1.2.3-beta.2", "1.3.0"},
                                                        {">=1.0.0-0", "1.0.0-alpha"}}) {
    EXPECT_EQ(answer(range, version), "yes") << range << " and " << version;
  }
  for (const auto& [range, version] :
       std::vector<std::pair<std::string, std::string>>{{"^1.2.3", "2.0.0"},
                                                        {"^1.2.3", "1.2.2"},
                                                        {"^0.2.3", "0.3.0"},
                                                        {"^0.0.3", "0.0.4"},
                                                        {"~1.2.3", "1.3.0"},
                                                        {"1.2", "1.3.0"},
                                                        {">1.2", "1.2.9"},
                                                        {"<1", "1.0.0"},
                                                        {"1.2.3 - 2.3", "2.4.0"},
                                                        {"^1.2.3", "1.5.0-beta"},
                                                        {"^1.2.3", "2.0.0-beta"},
                                                        {"*", "1.0.0-beta"},
                                                        {"<2", "2.0.0-beta"},
                                                        {"^1.2.3-beta.2", "1.2.4-beta.2"},
                                                        {">*", "1.0.0"}}) {
    EXPECT_EQ(answer(range, version), "no") << range << " and " << version;
  }
  for (const std::string_view range : {"latest", "git+ssh://x", "1.2.3.4", "^~1", "file:../b",
                                       "1.2.x-beta", "||x||y", ">=", "npm:a@1"}) {
    EXPECT_EQ(answer(range, "1.0.0"), "not a range") << range;
  }
}

}  // namespace
}  // namespace tenure::pipeline
