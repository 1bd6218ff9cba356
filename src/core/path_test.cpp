#include "tenure/path.hpp"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <compare>
#include <cstdint>
#include <filesystem>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tenure {
namespace {

using namespace std::string_literals;
using namespace std::string_view_literals;

// Paths are constexpr, so the compiler runs these tests.
static_assert(Path{}.is_root());
static_assert(Path::of("book", 3).depth() == 2);
static_assert(Path::of("book", 3) == Path::of("book") / Path::of("3"));
static_assert(Path::of("a/b") != Path::of("a", "b"));
static_assert(Path::of("a", "") != Path::of("a"));
static_assert(Path::of("a").covers(Path::of("a", "b")));
static_assert(!Path::of("a").covers(Path::of("ab")));
static_assert(Path{}.covers(Path{}));
static_assert(Path::of("a") < Path::of("a", "b") && Path::of("a", "b") < Path::of("a!"));
static_assert(Path::of("a", "b", "c").parent() == Path::of("a", "b"));
static_assert(Path{}.parent() == Path{});
// Siblings below one name are in different tables; everything below a sibling is in the sibling's
// table.
static_assert(Path::of("a", "b").route() != Path::of("a", "c").route());
static_assert(Path::of("a", "b").route() == Path::of("a", "b", "c").route());

enum class Shelf : std::uint8_t { low = 7 };
enum class Letter : char { a = 'a' };
struct Isbn {
  std::string_view digits;
};
constexpr void append_to(Path& path, const Isbn& isbn) { path.append("isbn").append(isbn.digits); }

TEST(Path, MakesASegmentOfEachArgument) {
  EXPECT_EQ(Path::of("s", std::string{"t"}, std::string_view{"v"}).text(), "s/t/v");
  EXPECT_EQ(Path::of(0, -1, 42U, INT64_MIN, UINT64_MAX, std::uint8_t{65}).text(),
            "0/-1/42/-9223372036854775808/18446744073709551615/65");
  EXPECT_EQ(Path::of(Shelf::low, Letter::a).text(), "7/97");
  EXPECT_EQ(Path::of(Uuid{}).text(), "00000000-0000-0000-0000-000000000000");
  EXPECT_EQ(Path::of(std::filesystem::path{"/srv/./books//x/../"}).text(), "%2Fsrv%2Fbooks");
  EXPECT_EQ(Path::of(std::filesystem::path{"/"}).text(), "%2F");
  EXPECT_EQ(Path::of(Isbn{"978"}, 1).text(), "isbn/978/1");
}

TEST(Path, PrintsWhatCanBeReadAndEscapesTheRest) {
  EXPECT_EQ(Path{}.text(), "/");
  EXPECT_EQ(Path::of("").text(), R"("")");
  EXPECT_EQ(Path::of("", "", "a").text(), R"(""/""/a)");
  EXPECT_EQ(Path::of("\"\"").text(), "%22%22");
  EXPECT_EQ(Path::of("a/b c%").text(), "a%2Fb%20c%25");
  EXPECT_EQ(Path::of("é€😀", "!#$&'()*+,-.:;<=>?@[\\]^_`{|}~").text(),
            "é€😀/!#$&'()*+,-.:;<=>?@[\\]^_`{|}~");
  EXPECT_EQ(Path::of("\0\x1f\x7f"sv).text(), "%00%1F%7F");
  EXPECT_EQ(Path::of("\u0080\u009f\u00a0").text(), "%C2%80%C2%9F\u00a0");
  EXPECT_EQ(Path::of("\u200a\u200b\u200f\u2010").text(), "\u200a%E2%80%8B%E2%80%8F\u2010");
  EXPECT_EQ(Path::of("\u2027\u2028\u202e\u202f").text(), "\u2027%E2%80%A8%E2%80%AE\u202f");
  EXPECT_EQ(Path::of("\u205f\u2060\u2069\u206a").text(), "\u205f%E2%81%A0%E2%81%A9\u206a");
  EXPECT_EQ(Path::of("\ufefe\ufeff").text(), "\ufefe%EF%BB%BF");
  std::ostringstream out;
  out << Path::of("a b");
  EXPECT_EQ(out.str(), "a%20b");
}

TEST(Path, EscapesEachByteThatIsNotUtf8) {
  EXPECT_EQ(Path::of("\x80\xff").text(), "%80%FF");
  EXPECT_EQ(Path::of("\xc3").text(), "%C3");  // Truncated.
  // Truncated by another character.
  EXPECT_EQ(Path::of("\xe2\x82z").text(), "%E2%82z");
  EXPECT_EQ(Path::of("\xc0\xaf").text(), "%C0%AF");                // Overlong '/'.
  EXPECT_EQ(Path::of("\xe0\x9f\xbf").text(), "%E0%9F%BF");         // Overlong.
  EXPECT_EQ(Path::of("\xf0\x8f\xbf\xbf").text(), "%F0%8F%BF%BF");  // Overlong.
  EXPECT_EQ(Path::of("\xed\xa0\x80").text(), "%ED%A0%80");         // Surrogate.
  EXPECT_EQ(Path::of("\xf4\x90\x80\x80").text(), "%F4%90%80%80");  // Above U+10FFFF.
  EXPECT_EQ(Path::of("\xf8\x88\x80\x80\x80").text(), "%F8%88%80%80%80");
  EXPECT_EQ(Path::of("\xed\x9f\xbf\xf4\x8f\xbf\xbf").text(), "\xed\x9f\xbf\xf4\x8f\xbf\xbf");
}

std::string refusal(std::string_view text) {
  const auto path = Path::parse(text);
  return path ? "parsed as " + path->text() : path.error().message(text);
}

TEST(Path, ParsesItsTextAndNoOther) {
  EXPECT_EQ(Path::parse("/"), Path{});
  EXPECT_EQ(Path::parse("book/3"), Path::of("book", 3));
  EXPECT_EQ(Path::parse(R"(a/""/%2F)"), Path::of("a", "", "/"));

  EXPECT_EQ(refusal(""), R"(bad path "" at byte 0: the path is empty: write / for the root)");
  EXPECT_EQ(refusal("/a"),
            R"(bad path "/a" at byte 0: a path does not start with a slash: remove it)");
  EXPECT_EQ(refusal("a/"),
            R"(bad path "a/" at byte 1: a path does not end with a slash: remove it)");
  EXPECT_EQ(refusal("a//b"),
            R"(bad path "a//b" at byte 2: this segment is empty: remove a slash, or write "" )"
            "for an empty segment");
  EXPECT_EQ(refusal("a/%2f"),
            R"(bad path "a/%2f" at byte 4: an escape needs upper-case digits: write %2F, not %2f)");
  EXPECT_EQ(refusal("100%"), R"(bad path "100%" at byte 3: % must be followed by two hex digits: )"
                             "write %25 for a percent sign");
  EXPECT_EQ(refusal("%2/%2x"),
            R"(bad path "%2/%2x" at byte 0: % must be followed by two hex digits: )"
            "write %25 for a percent sign");
  EXPECT_EQ(
      refusal("a/b%41"),
      R"(bad path "a/b%41" at byte 3: this escape is not needed: write the character itself)");
  EXPECT_EQ(
      refusal("%C3%A9"),
      R"(bad path "%C3%A9" at byte 0: this escape is not needed: write the character itself)");
  EXPECT_EQ(refusal("a b"), R"(bad path "a b" at byte 1: write a space as %20)");
  EXPECT_EQ(refusal(R"(a/"b")"), R"(bad path "a/"b"" at byte 2: write a double quote as %22; )"
                                 "\"\" alone is the empty segment");
  EXPECT_EQ(refusal("x\xff"),
            R"(bad path "x%FF" at byte 1: this byte is not UTF-8: write it as %XX)");
  EXPECT_EQ(refusal("x\u202e"),
            R"(bad path "x%E2%80%AE" at byte 1: this character is not printable: )"
            "write each of its bytes as %XX");
}

TEST(Path, HasLimitsThatTheErrorNames) {
  std::string deep = "s";
  for (std::size_t i = 1; i < Path::max_depth; ++i) deep += "/s";
  Path deepest = Path::parse(deep).value();
  EXPECT_EQ(deepest.depth(), Path::max_depth);
  EXPECT_EQ(Path::parse(deep + "/s").error().message("…"),
            "bad path \"…\" at byte 128: this is segment 65: use at most 64");
  EXPECT_THROW(deepest.append("s"), BadRequest);
  EXPECT_EQ(deepest.text(), deep);

  const std::string longest(Path::max_bytes - 2, 'x');  // Its length takes two bytes.
  EXPECT_EQ(Path::parse(longest), Path::of(longest));
  EXPECT_EQ(refusal("a/" + longest),
            "bad path \"a/" + std::string(98, 'x') +
                "...\" at byte 2: this segment makes the path longer than 4096 bytes: "
                "replace it by a hash");
  Path path = Path::of("a");
  EXPECT_THROW(path.append(longest), BadRequest);
  EXPECT_THROW(path.append(std::string(1U << 20U, 'x')), BadRequest);
  EXPECT_EQ(path, Path::of("a"));
}

// --- Properties ---

using Segments = std::vector<std::string>;

Path path_of(const Segments& segments) {
  Path path;
  for (const std::string& segment : segments) path.append(segment);
  return path;
}

Segments segments_of(const Path& path) {
  Segments found;
  for (const std::string_view segment : path.segments()) found.emplace_back(segment);
  return found;
}

// Bytes with a meaning in the text form or in UTF-8, and any others.
rc::Gen<char> any_byte() {
  return rc::gen::weightedOneOf<char>(
      {{3, rc::gen::elementOf("/%\"\" ab2F\x7f\x80\x8b\xa0\xad\xbf\xc2\xc3\xe2\xed\xef\xf4\xff"s)},
       {1, rc::gen::cast<char>(rc::gen::inRange(0, 256))}});
}

// Mostly short; some have a length that takes two bytes.
rc::Gen<std::string> any_segment() {
  const auto any_text = rc::gen::container<std::string>(any_byte());
  return rc::gen::weightedOneOf<std::string>(
      {{8, rc::gen::resize(4, any_text)},
       {1, rc::gen::container<std::string>(127, any_byte())},
       {1, rc::gen::container<std::string>(128, any_byte())},
       {1, rc::gen::container<std::string>(300, any_byte())}});
}

rc::Gen<Segments> any_segments() {
  return rc::gen::resize(6, rc::gen::container<Segments>(any_segment()));
}

// Built from few letters, so that two are often equal, or one is above the other.
rc::Gen<Segments> few_segments() {
  const auto segment =
      rc::gen::resize(2, rc::gen::container<std::string>(rc::gen::elementOf("a/\""s)));
  return rc::gen::resize(3, rc::gen::container<Segments>(segment));
}

RC_GTEST_PROP(PathProperty, TextParsesBackToThePath, ()) {
  const Segments segments = *any_segments();
  const Path path = path_of(segments);
  RC_ASSERT(segments_of(path) == segments);
  RC_ASSERT(path.depth() == segments.size());
  RC_ASSERT(Path::parse(path.text()).value() == path);
}

// The same bytes, divided into segments in two ways.
RC_GTEST_PROP(PathProperty, TextTellsCutsApart, ()) {
  const std::string bytes = *rc::gen::resize(12, rc::gen::container<std::string>(any_byte()));
  const auto cut = [&bytes] {
    Segments segments(1);
    for (const char byte : bytes) {
      if (*rc::gen::inRange(0, 3) == 0) segments.emplace_back();
      segments.back() += byte;
    }
    return segments;
  };
  const Segments a = cut();
  const Segments b = cut();
  RC_ASSERT((path_of(a).text() == path_of(b).text()) == (a == b));
}

RC_GTEST_PROP(PathProperty, TextHasNothingThatCannotBeSeen, ()) {
  for (const char byte : path_of(*any_segments()).text()) {
    RC_ASSERT(static_cast<unsigned char>(byte) > 0x20U);
    RC_ASSERT(byte != '\x7f');
  }
}

// A text that parses is the text of its path: each path has one text.
RC_GTEST_PROP(PathProperty, ParsesNoSecondTextOfAPath, ()) {
  const std::string text = *rc::gen::resize(6, rc::gen::container<std::string>(any_byte()));
  const auto path = Path::parse(text);
  if (path) {
    RC_ASSERT(path->text() == text);
  } else {
    RC_ASSERT(path.error().at <= text.size());
    RC_ASSERT(!path.error().why.empty());
  }
}

RC_GTEST_PROP(PathProperty, ComparesAsItsSegmentsDo, ()) {
  for (int repeat = 0; repeat < 20; ++repeat) {
    const Segments a = *few_segments();
    const Segments b = *few_segments();
    const Path left = path_of(a);
    const Path right = path_of(b);
    RC_ASSERT((left == right) == (a == b));
    RC_ASSERT((left <=> right) == (a <=> b));
    RC_ASSERT((left.text() == right.text()) == (a == b));
    // Except for hash collisions, which 64 bits make rare.
    RC_ASSERT((left.hash() == right.hash()) == (a == b));
    const bool above = a.size() <= b.size() && std::equal(a.begin(), a.end(), b.begin());
    RC_ASSERT(left.covers(right) == above);
    RC_ASSERT(!above || left.route() == right.route() || a.size() < 2);
  }
}

RC_GTEST_PROP(PathProperty, PrefixesAndJoinsAsListsDo, ()) {
  const Segments a = *any_segments();
  const Segments b = *any_segments();
  Segments both = a;
  both.insert(both.end(), b.begin(), b.end());
  const Path joined = path_of(a) / path_of(b);
  RC_ASSERT(joined == path_of(both));
  RC_ASSERT(joined.prefix(a.size()) == path_of(a));
  RC_ASSERT(joined.prefix(both.size() + 1) == joined);
  RC_ASSERT(joined.prefix(a.size()).route() == path_of(a).route());
  if (!both.empty()) both.pop_back();
  RC_ASSERT(joined.parent() == path_of(both));
}

// Goal: no step loses or shares bytes, in particular when a path outgrows its inline storage.
// Method: random steps on three paths and on three lists of segments, compared after each.
RC_GTEST_PROP(PathProperty, IsAValueOnBothSidesOfItsInlineStorage, ()) {
  std::vector<Path> paths(3);
  std::vector<Segments> lists(3);
  const int steps = *rc::gen::inRange(0, 40);
  for (int step = 0; step < steps; ++step) {
    const auto to = *rc::gen::inRange<std::size_t>(0, 3);
    const auto from = *rc::gen::inRange<std::size_t>(0, 3);
    switch (*rc::gen::inRange(0, 6)) {
      case 0:
        paths[to] = paths[from];
        lists[to] = lists[from];
        break;
      case 1:
        if (to == from) break;
        paths[to] = std::move(paths[from]);
        lists[to] = std::exchange(lists[from], {});
        RC_ASSERT(paths[from] == Path{});  // NOLINT(bugprone-use-after-move): it is promised.
        break;
      case 2: {
        Path moved = std::move(paths[to]);
        paths[to] = Path{moved};
        break;
      }
      case 3: {  // A view into the path itself must survive the path's growth.
        if (lists[to].empty() || paths[to].bytes().size() > 1000) break;
        lists[to].push_back(lists[to].front());
        paths[to].append(*paths[to].segments().begin());
        break;
      }
      default:
        if (paths[to].bytes().size() > 1000) break;
        lists[to].push_back(*rc::gen::container<std::string>(
            *rc::gen::elementOf(std::vector<std::size_t>{0, 1, 18, 19, 20, 38, 39, 40, 64}),
            any_byte()));
        paths[to].append(lists[to].back());
    }
    for (std::size_t i = 0; i < paths.size(); ++i) {
      RC_ASSERT(segments_of(paths[i]) == lists[i]);
      RC_ASSERT(paths[i] == path_of(lists[i]));
    }
    if (paths[to].depth() > 40) break;
  }
}

}  // namespace
}  // namespace tenure
