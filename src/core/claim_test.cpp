#include "tenure/claim.hpp"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "tenure/rule.hpp"

namespace tenure {
namespace {

using namespace std::string_literals;

TEST(Mode, ExcludesAllButItsOwnGroup) {
  EXPECT_TRUE(Mode::exclusive().excludes(Mode::exclusive()));
  EXPECT_TRUE(Mode::exclusive().excludes(Mode::shared()));
  EXPECT_TRUE(Mode::shared().excludes(Mode::group("pull")));
  EXPECT_FALSE(Mode::shared().excludes(Mode::shared()));
  // The limits clash, but the modes do not exclude each other.
  EXPECT_FALSE(Mode::permits(2).excludes(Mode::permits(3)));
}

TEST(Mode, IsTheSameHoweverItIsMade) {
  EXPECT_EQ(Mode{}, Mode::exclusive());
  EXPECT_EQ(Mode::group("shared"), Mode::shared());
  EXPECT_EQ(Mode::permits(3), Mode::group("permits", 3));
  EXPECT_NE(Mode::group("exclusive"), Mode::exclusive());
  EXPECT_EQ(Mode::permits(3).take(1), Mode::permits(3));
  EXPECT_EQ(Mode::permits(3).take(3).take(2).weight(), 2U);
  EXPECT_NE(Mode::permits(3).take(2), Mode::permits(3));
  EXPECT_TRUE(Mode::permits(3).take(2).same_group(Mode::permits(3)));
}

TEST(Claim, IsExclusiveOnABarePath) {
  const Path path = Path::of("book", 3);
  EXPECT_EQ(Claim{path}, path.exclusive());
  EXPECT_EQ(path.shared(), (Claim{path, Mode::shared()}));
  EXPECT_EQ(path.group("pull"), (Claim{path, Mode::group("pull")}));
  EXPECT_EQ(path.group("pull", 2), (Claim{path, Mode::group("pull", 2)}));
  EXPECT_EQ(path.permits(2), path.group("permits", 2));
}

TEST(Claim, RefusesAGroupThatMakesNoSense) {
  EXPECT_THROW((void)Mode::group(""), BadRequest);
  EXPECT_THROW((void)Mode::permits(0), BadRequest);
  EXPECT_THROW((void)Mode::permits(3).take(0), BadRequest);
  EXPECT_THROW((void)Mode::shared().take(1), BadRequest);
  EXPECT_THROW((void)Mode::exclusive().take(1), BadRequest);
  try {
    (void)Path::of("a").permits(3).take(4);
    ADD_FAILURE() << "took 4 of 3";
  } catch (const BadRequest& error) {
    EXPECT_STREQ(error.what(),
                 "a request that takes more than the limit would wait forever: take at most 3, not "
                 "4");
  }
  EXPECT_NO_THROW((void)Mode::group(std::string(Mode::max_name, 'x')));
  EXPECT_THROW((void)Mode::group(std::string(Mode::max_name + 1, 'x')), BadRequest);
}

TEST(Claim, PrintsPathAndMode) {
  const Path path = Path::of("book", 3);
  EXPECT_EQ(path.exclusive().text(), "book/3");
  EXPECT_EQ(path.shared().text(), "book/3:shared");
  EXPECT_EQ(path.permits(3).text(), "book/3:permits(3)");
  EXPECT_EQ(path.permits(10).take(3).text(), "book/3:permits(10) take=3");
  EXPECT_EQ(Path{}.exclusive().text(), "/");
  EXPECT_EQ(Path{}.shared().text(), "/:shared");
  EXPECT_EQ(Path::of("a b").group("é \n").text(), "a%20b:é%20%0A");
}

// Texts that could be read in two ways.
TEST(Claim, PrintsWhatIsAmbiguousAtLength) {
  EXPECT_EQ(Path::of("a:shared").exclusive().text(), "a:shared:exclusive");
  EXPECT_EQ(Path::of("a").group("exclusive").text(), "a:%65xclusive");
  EXPECT_EQ(Path::of("a").group("g(3)").text(), "a:g%283%29");
  EXPECT_EQ(Path::of("a").group("x:y/z").text(), "a:x%3Ay%2Fz");
  EXPECT_EQ(Mode::exclusive().text(), "exclusive");
}

rc::Gen<Claim> any_claim() {
  const auto name = rc::gen::oneOf(
      rc::gen::elementOf(std::vector{"exclusive"s, "shared"s, "permits"s, "permits(1)"s, "%65"s}),
      rc::gen::nonEmpty(
          rc::gen::resize(2, rc::gen::container<std::string>(rc::gen::elementOf("a:()1%"s)))));
  return rc::gen::apply(
      [](const std::string& segment, bool exclusive, const std::string& group,
         std::uint32_t limit) {
        const Path path = Path::of(segment);
        if (exclusive) return path.exclusive();
        if (limit == 3) return path.group(group, 2).take(2);
        return limit == 0 ? path.group(group) : path.group(group, limit);
      },
      rc::gen::elementOf(std::vector{"a"s, "a:a"s, "a:exclusive"s, "a:shared"s, ":"s}),
      rc::gen::arbitrary<bool>(), name, rc::gen::inRange(0U, 4U));
}

RC_GTEST_PROP(ClaimProperty, TextTellsClaimsApart, ()) {
  const auto claims = *rc::gen::container<std::vector<Claim>>(30, any_claim());
  for (const Claim& a : claims) {
    for (const Claim& b : claims) {
      RC_ASSERT((a.text() == b.text()) == (a == b));
      RC_ASSERT((a.mode.text() == b.mode.text()) == (a.mode == b.mode));
    }
  }
}

RC_GTEST_PROP(ClaimProperty, ConflictIsSymmetricAndIgnoresLimits, ()) {
  const auto claims = *rc::gen::container<std::vector<Claim>>(30, any_claim());
  for (const Claim& a : claims) {
    for (const Claim& b : claims) {
      const bool related = a.path.covers(b.path) || b.path.covers(a.path);
      const bool together = !a.mode.is_exclusive() && a.mode.name() == b.mode.name();
      RC_ASSERT(conflict(a, b) == (related && !together));
      RC_ASSERT(conflict(a, b) == conflict(b, a));
    }
  }
}

}  // namespace
}  // namespace tenure
