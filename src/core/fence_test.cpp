#include "tenure/fence.hpp"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace tenure {
namespace {

using namespace std::string_literals;

TEST(Fence, RefusesWhatAnExclusiveOneHasPassed) {
  Fence fence;
  EXPECT_TRUE(fence.admit(Token{3}, Mode::exclusive()));
  EXPECT_TRUE(fence.admit(Token{5}, Mode::exclusive()));
  const Fence before = fence;
  EXPECT_FALSE(fence.admit(Token{4}, Mode::exclusive()));
  EXPECT_FALSE(fence.admit(Token{4}, Mode::shared()));
  EXPECT_EQ(fence, before);
  EXPECT_TRUE(fence.admit(Token{5}, Mode::exclusive()));  // The same token again.
}

TEST(Fence, LetsOneGroupPassInAnyOrder) {
  Fence fence;
  EXPECT_TRUE(fence.admit(Token{7}, Mode::shared()));
  EXPECT_TRUE(fence.admit(Token{4}, Mode::shared()));
  EXPECT_TRUE(fence.admit(Token{5}, Mode::group("shared", 2)));
  EXPECT_FALSE(fence.admit(Token{6}, Mode::exclusive()));
  EXPECT_FALSE(fence.admit(Token{6}, Mode::group("pull")));
  EXPECT_TRUE(fence.admit(Token{8}, Mode::group("pull")));
  EXPECT_FALSE(fence.admit(Token{7}, Mode::shared()));
  EXPECT_TRUE(fence.admit(Token{7}, Mode::group("pull")));
  EXPECT_FALSE(fence.admit(Token{6}, Mode::group("pull")));
}

TEST(Fence, RefusesTheTokenThatIsNone) {
  Fence fence;
  EXPECT_FALSE(fence.admit(Token{}, Mode::exclusive()));
  EXPECT_FALSE(fence.admit(Token{}, Mode::shared()));
  EXPECT_EQ(fence, Fence{});
}

TEST(Fence, IsOneLineOfText) {
  Fence fence;
  EXPECT_EQ(fence.text(), "tenure-fence/1 0 0 0");
  (void)fence.admit(Token{12}, Mode::exclusive());
  EXPECT_EQ(fence.text(), "tenure-fence/1 12 0 0");
  (void)fence.admit(Token{30}, Mode::shared());
  (void)fence.admit(Token{~std::uint64_t{}}, Mode::group("a b\n\xff/"));
  EXPECT_EQ(fence.text(), "tenure-fence/1 12 18446744073709551615 30 a%20b%0A%FF%2F");
  EXPECT_EQ(Fence::parse(fence.text()), fence);
}

TEST(Fence, RefusesTextThatIsNone) {
  const std::vector<std::string> bad = {
      "",
      "tenure-fence/1",
      "tenure-fence/1 ",
      "tenure-fence/2 0 0 0",
      "tenure-fence/1 0 0",
      "tenure-fence/1  0 0 0",
      "tenure-fence/1 0 0 0 ",
      "tenure-fence/1 0 0 0\n",
      "tenure-fence/1 0 0 0 shared",
      "tenure-fence/1 0 7 0",
      "tenure-fence/1 0 7 0 ",
      "tenure-fence/1 0 7 8 shared",
      "tenure-fence/1 0 7 0 \"\"",
      "tenure-fence/1 0 7 0 /",
      "tenure-fence/1 0 7 0 a/b",
      "tenure-fence/1 0 7 0 a b",
      "tenure-fence/1 0 7 0 %61",
      "tenure-fence/1 0 7 0 " + std::string(Mode::max_name + 1, 'x'),
      "tenure-fence/1 00 0 0",
      "tenure-fence/1 -1 0 0",
      "tenure-fence/1 +1 0 0",
      "tenure-fence/1 0x1 0 0",
      "tenure-fence/1 1.0 0 0",
      "tenure-fence/1 18446744073709551616 0 0",
      "tenure-fence/1 0\0 0 0"s,
  };
  for (const std::string& text : bad) {
    const auto fence = Fence::parse(text);
    ASSERT_FALSE(fence.has_value()) << text;
    EXPECT_TRUE(fence.error().starts_with("not a fence: ")) << fence.error();
  }
}

// Remembers every token that it has seen.
class SlowFence {
 public:
  bool admit(Token token, const Mode& mode) {
    if (token == Token{}) return false;
    const bool passed = std::ranges::any_of(
        seen_, [&](const auto& one) { return token < one.first && one.second.excludes(mode); });
    if (passed) return false;
    seen_.emplace_back(token, mode);
    return true;
  }

 private:
  std::vector<std::pair<Token, Mode>> seen_;
};

RC_GTEST_PROP(FenceProperty, DoesAsOneThatRemembersEverything, ()) {
  const std::vector modes = {Mode::exclusive(), Mode::shared(),   Mode::group("a"),
                             Mode::group("b"),  Mode::group("c"), Mode::permits(2)};
  const auto calls =
      *rc::gen::container<std::vector<std::pair<std::uint64_t, std::size_t>>>(rc::gen::pair(
          rc::gen::inRange<std::uint64_t>(0, 30), rc::gen::inRange<std::size_t>(0, modes.size())));
  Fence fence;
  SlowFence slow;
  std::uint64_t base = 0;  // Rises slowly; otherwise all tokens would soon be refused.
  for (const auto& [number, mode] : calls) {
    const Token token{base + number};
    const Fence before = fence;
    const bool admitted = fence.admit(token, modes[mode]);
    RC_ASSERT(admitted == slow.admit(token, modes[mode]));
    RC_ASSERT(admitted || fence == before);
    const auto parsed = Fence::parse(fence.text());
    RC_ASSERT(parsed.has_value());
    RC_ASSERT(*parsed == fence);
    base += number % 4;
  }
}

}  // namespace
}  // namespace tenure
