#include "tenure/claim.hpp"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <cstdint>
#include <string>

#include "tests/kit/message.hpp"

namespace tenure {
namespace {

using namespace std::string_literals;

TEST(ClaimParse, ReadsAPathAndAMode) {
  EXPECT_EQ(Claim::parse("db/users"), Path::of("db", "users").exclusive());
  EXPECT_EQ(Claim::parse("db/users:exclusive"), Path::of("db", "users").exclusive());
  EXPECT_EQ(Claim::parse("db/users:shared"), Path::of("db", "users").shared());
  EXPECT_EQ(Claim::parse("vendor:permits(3)"), Path::of("vendor").permits(3));
  EXPECT_EQ(Claim::parse("/:pull"), Path{}.group("pull"));
  EXPECT_EQ(Claim::parse("a:shared:exclusive"), Path::of("a:shared").exclusive());
}

TEST(ClaimParse, ReadsAPathAsPeopleTypeIt) {
  EXPECT_EQ(Claim::parse("/nightly backup/:shared"), Path::of("nightly backup").shared());
  EXPECT_EQ(Claim::parse("50%25/\"\"/ü"), Path::of("50%", "", "ü").exclusive());
  EXPECT_EQ(Path{"/nightly backup/"}, Path::of("nightly backup"));
  EXPECT_EQ(Path{"a:shared"}, Path::of("a:shared"));  // A path has no mode.
  EXPECT_EQ(Path{std::string{"/"}}, Path{});
  EXPECT_EQ(Claim{"book"}, Path::of("book").exclusive());
}

TEST(ClaimParse, ReadsHowMuchOfALimitIsTaken) {
  EXPECT_EQ(Claim::parse("vendor:permits(10) take=3"), Path::of("vendor").permits(10).take(3));
  EXPECT_EQ(Claim::parse("vendor:permits(10) take=1"), Path::of("vendor").permits(10));
  EXPECT_EQ(Claim::parse("vendor:g(2) take=2"), Path::of("vendor").group("g", 2).take(2));
  EXPECT_EQ(Claim::parse(Path::of("v").group("a b").text()), Path::of("v").group("a b"));
}

TEST(ClaimParse, SaysWhatIsWrong) {
  const auto error = [](const std::string& text) {
    const auto claim = Claim::parse(text);
    return claim ? "no error"s : claim.error();
  };
  for (const std::string text :
       {"a:", "a:permits(0)", "a:permits(x)", "a:g)", "a:%6", "a:(3)", "a:permits(03)", "a:b c",
        "a:permits(3) take=0", "a:permits(3) take=4", "a:permits(3) take=", "a:permits(3) take=02",
        "a:permits(3)  take=2", "a:permits(3) take=2 take=2", "a:g take=1", "a:shared take=2"}) {
    EXPECT_TRUE(kit::contains(error(text), "is not a mode: use exclusive, shared")) << text;
  }
  EXPECT_FALSE(error("").empty());
  EXPECT_TRUE(kit::contains(error("a//b"), "a//b")) << error("a//b");
  EXPECT_EQ(error("postgres://me:secret@db/ops"),
            "'postgres://…' is a URL, not a path: pass it to tenure::open(), or as --space");
}

RC_GTEST_PROP(ClaimParse, ReadsWhatTextWrites, ()) {
  const auto segment = *rc::gen::container<std::string>(rc::gen::elementOf("ab:()%/ 1\x01"s));
  const auto group =
      *rc::gen::nonEmpty(rc::gen::container<std::string>(rc::gen::elementOf("ab:()%/ 1\x01"s)));
  const auto limit = *rc::gen::inRange<std::uint32_t>(0, 4);
  RC_PRE(group.size() <= Mode::max_name);
  const Path path = Path::of(segment);
  const Claim claim =
      limit == 0 ? path.group(group)
                 : path.group(group, limit).take(*rc::gen::inRange<std::uint32_t>(1, limit + 1));
  RC_ASSERT(Claim::parse(claim.text()).value() == claim);
  RC_ASSERT(Claim::parse(path.exclusive().text()).value() == path.exclusive());
}

}  // namespace
}  // namespace tenure
