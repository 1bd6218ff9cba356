#include "core/parse_claim.hpp"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <cstdint>
#include <string>

#include "tests/kit/message.hpp"

namespace tenure {
namespace {

using namespace std::string_literals;

TEST(ParseClaim, ReadsAPathAndAMode) {
  EXPECT_EQ(parse_claim("db/users"), Path::of("db", "users").exclusive());
  EXPECT_EQ(parse_claim("db/users:exclusive"), Path::of("db", "users").exclusive());
  EXPECT_EQ(parse_claim("db/users:shared"), Path::of("db", "users").shared());
  EXPECT_EQ(parse_claim("vendor:permits(3)"), Path::of("vendor").permits(3));
  EXPECT_EQ(parse_claim("/:pull"), Path{}.group("pull"));
  EXPECT_EQ(parse_claim("a:shared:exclusive"), Path::of("a:shared").exclusive());
}

TEST(ParseClaim, SaysWhatIsWrong) {
  const auto error = [](const std::string& text) {
    const auto claim = parse_claim(text);
    return claim ? "no error"s : claim.error();
  };
  for (const std::string text :
       {"a:", "a:permits(0)", "a:permits(x)", "a:g)", "a:%6", "a:(3)", "a:permits(03)", "a:b c"}) {
    EXPECT_TRUE(kit::contains(error(text), "is not a mode: use exclusive, shared")) << text;
  }
  EXPECT_FALSE(error("").empty());
  EXPECT_TRUE(kit::contains(error("a//b"), "a//b")) << error("a//b");
}

RC_GTEST_PROP(ParseClaim, ReadsWhatTextWrites, ()) {
  const auto segment = *rc::gen::container<std::string>(rc::gen::elementOf("ab:()%/ 1\x01"s));
  const auto group =
      *rc::gen::nonEmpty(rc::gen::container<std::string>(rc::gen::elementOf("ab:()%/ 1\x01"s)));
  const auto limit = *rc::gen::inRange<std::uint32_t>(0, 4);
  RC_PRE(group.size() <= Mode::max_name);
  const Path path = Path::of(segment);
  const Claim claim = limit == 0 ? path.group(group) : path.group(group, limit);
  RC_ASSERT(parse_claim(claim.text()).value() == claim);
  RC_ASSERT(parse_claim(path.exclusive().text()).value() == path.exclusive());
}

}  // namespace
}  // namespace tenure
