// What a name makes: paths and claims. registry_test.cpp tests the registry.
#include "tenure/name.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <concepts>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <set>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "tenure/claim.hpp"
#include "tenure/error.hpp"
#include "tenure/path.hpp"
#include "tenure/uuid.hpp"

namespace library {

inline const tenure::Name book{"book"}, chapter{"chapter"};

struct Isbn {
  std::string digits;
};
void append_to(tenure::Path& path, const Isbn& isbn) { path.append("isbn").append(isbn.digits); }

enum class Wing : std::uint8_t { east = 3 };
enum Floor : int { cellar = -1 };

}  // namespace library

namespace tenure {
namespace {

using library::book;
using library::chapter;

static_assert(!std::copy_constructible<Name> && !std::move_constructible<Name>);
static_assert(!std::is_copy_assignable_v<Name> && !std::is_move_assignable_v<Name>);
static_assert(std::convertible_to<const Name&, Path>);
static_assert(std::convertible_to<const Name&, Claim>);
static_assert(!std::convertible_to<const char*, Name> && !std::constructible_from<Name, Path>);

std::vector<std::string> segments(const Path& path) {
  std::vector<std::string> list;
  for (const std::string_view segment : path.segments()) list.emplace_back(segment);
  return list;
}

TEST(Name, MakesPaths) {
  EXPECT_EQ(book().text(), "book");
  EXPECT_EQ(book.path().text(), "book");
  EXPECT_EQ(book(3).text(), "book/3");
  EXPECT_EQ(book(3, "x").text(), "book/3/x");
  EXPECT_EQ((book(3) / chapter(7)).text(), "book/3/chapter/7");
  EXPECT_EQ((book / chapter(7)).text(), "book/chapter/7");
  EXPECT_EQ((book(3) / chapter).text(), "book/3/chapter");
  EXPECT_EQ((book / chapter).text(), "book/chapter");
  EXPECT_EQ(book(3), Path::of("book", 3));
  EXPECT_EQ(book, Path::of("book"));
  EXPECT_TRUE(book.path().covers(book(3) / chapter(7)));
  EXPECT_FALSE(book(3).covers(book(4)));
}

TEST(Name, TakesEveryKindOfArgument) {
  EXPECT_EQ(book(std::numeric_limits<std::int64_t>::min()).text(), "book/-9223372036854775808");
  EXPECT_EQ(book(std::numeric_limits<std::uint64_t>::max()).text(), "book/18446744073709551615");
  EXPECT_EQ(book(std::int8_t{-8}, std::uint16_t{16}).text(), "book/-8/16");
  EXPECT_EQ(book(std::string{"a"}, std::string_view{"b"}, "c").text(), "book/a/b/c");
  EXPECT_EQ(book(library::Wing::east, library::cellar).text(), "book/3/-1");
  EXPECT_EQ(book(Uuid::parse("01234567-89ab-cdef-0123-456789abcdef").value()).text(),
            "book/01234567-89ab-cdef-0123-456789abcdef");
  EXPECT_EQ(segments(book(std::filesystem::path{"/srv/./shelf/"})),
            (std::vector<std::string>{"book", "/srv/shelf"}));
  EXPECT_EQ(book(library::Isbn{"978"}, 1).text(), "book/isbn/978/1");
}

TEST(Name, MakesClaims) {
  const Path path = Path::of("book");
  EXPECT_EQ(Claim{book}, path.exclusive());
  EXPECT_EQ(Claim{book(3)}, Path::of("book", 3).exclusive());
  EXPECT_EQ(book.exclusive(), path.exclusive());
  EXPECT_EQ(book.shared(), path.shared());
  EXPECT_EQ(book.group("pull"), path.group("pull"));
  EXPECT_EQ(book.group("pull", 2), path.group("pull", 2));
  EXPECT_EQ(book.permits(3), path.permits(3));
  const std::vector<Claim> request{book.shared(), chapter};
  EXPECT_EQ(request.at(1).text(), Claim{Path::of("chapter")}.text());
}

// Arguments whose text looks like structure.
TEST(Name, KeepsArgumentsApart) {
  const std::set<Path> keys{book("a", "b"), book("a,b"),    book("a/b"), book("a%2Fb"),
                            book("", "ab"), book("ab", ""), book("ab")};
  EXPECT_EQ(keys.size(), 7U);
  EXPECT_EQ(book("a", "b").text(), "book/a/b");
  EXPECT_EQ(book("a/b").text(), "book/a%2Fb");
}

TEST(Name, TakesAnyBytesAsAnArgument) {
  for (const char* text : {"constructor", "__proto__", "", ".", "..", "hasOwnProperty", "NaN"}) {
    EXPECT_EQ(segments(book(text)), (std::vector<std::string>{"book", text}));
    EXPECT_EQ(Path::parse(book(text).text()).value(), book(text));
  }
  std::set<std::string> texts;
  for (int byte = 0; byte < 256; ++byte) {
    const std::string argument(1, static_cast<char>(byte));
    EXPECT_EQ(segments(book(argument)), (std::vector<std::string>{"book", argument}));
    texts.insert(book(argument).text());
  }
  EXPECT_EQ(texts.size(), 256U);
}

TEST(Name, IsOneSegmentWhateverIsInIt) {
  const Name slash{"a/b"};
  const Name dots{".."};
  const Name zero{"a\0b"};
  EXPECT_EQ(slash.path().text(), "a%2Fb");
  EXPECT_EQ(dots(1).text(), "../1");
  EXPECT_EQ(segments(zero), std::vector<std::string>{std::string("a\0b", 3)});
}

RC_GTEST_PROP(Name, DifferentArgumentsMakeDifferentPaths,
              (const std::vector<std::string>& a, const std::vector<std::string>& b)) {
  const auto path = [](const std::vector<std::string>& arguments) {
    RC_PRE(arguments.size() < Path::max_depth);
    Path made = book;
    for (const std::string& argument : arguments) made = made / Path::of(argument);
    return made;
  };
  RC_ASSERT((path(a) == path(b)) == (a == b));
  RC_ASSERT((path(a).text() == path(b).text()) == (a == b));
  if (a.size() == 2) RC_ASSERT(book(a[0], a[1]) == path(a));
}

TEST(Name, CannotMakeAPathThatIsTooLong) {
  EXPECT_THROW((void)book(std::string(Path::max_bytes, 'x')), BadRequest);
}

}  // namespace
}  // namespace tenure
