#include "store/common/sole_writer.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace tenure::stores {
namespace {

struct Head {
  Revision revision;
};
using Own = SoleWriter<Head>;

Range range(std::string from, std::string to) {
  return {.from = std::move(from), .to = std::move(to)};
}

Txn reading(std::vector<Range> ranges) {
  Txn txn;
  txn.reads = std::move(ranges);
  return txn;
}

Head head(std::uint64_t number) { return {.revision = Revision{number}}; }

TEST(SoleWriter, ReadsWhatTheSameApplyMayWrite) {
  Own own;
  own.moved({.head = head(1), .empty = {range("a", "c")}});
  const auto left_out = [&own](const Write& write, Range read) -> bool {
    Txn txn = reading({std::move(read)});
    txn.writes.push_back(write);
    return own.use(txn)->empty[0];
  };
  EXPECT_FALSE(left_out(Write::append("a", ""), range("a", "b")));
  EXPECT_FALSE(left_out(Write::append("a", ""), range("ab", "b"))) << "the key is longer";
  EXPECT_TRUE(left_out(Write::append("a", ""), range("b", "c")));
  EXPECT_TRUE(left_out(Write::append("b", ""), range("a", "b")));
  Range earlier = range("a", "b");
  earlier.before = this_apply;
  EXPECT_TRUE(left_out(Write::append("a", ""), earlier));
  EXPECT_FALSE(left_out(Write::put("a1", ""), earlier)) << "its stamp may be an old one";
  EXPECT_FALSE(left_out(Write::put("a1", ""), range("a", "b")));
  EXPECT_TRUE(left_out(Write::put("b1", ""), range("a", "b")));
  EXPECT_TRUE(left_out(Write::remove("a1"), range("a", "b")));
}

TEST(SoleWriter, KnowsWhatIsInsideOfWhatWasEmpty) {
  Own own;
  EXPECT_FALSE(own.use({}));
  own.moved({.head = head(1),
             .changes = {{.key = "b5"}},
             .empty = {range("b", "c"), range("c", "d"), range("x", "y")}});
  const auto use = own.use(reading({range("b6", "cc"), range("b", "c"), range("c", "x1"),
                                    range("a", "c"), range("x", ""), range("x1", "x2")}));
  ASSERT_TRUE(use);
  EXPECT_EQ(use->head.revision, Revision{1});
  EXPECT_EQ(use->empty, (std::vector<bool>{true, false, false, false, false, true}));
  own.removed("b5");
  EXPECT_TRUE(own.use(reading({range("b", "c")}))->empty[0]);
}

TEST(SoleWriter, GoesOnFromItsOwnAndElseAnew) {
  Own own;
  own.moved({.head = head(1), .empty = {range("a", "b")}});
  own.moved({.head = head(2), .on = Revision{1}, .empty = {range("c", "d")}});
  EXPECT_EQ(own.use(reading({range("a", "b"), range("c", "d")}))->empty,
            (std::vector<bool>{true, true}));
  own.moved({.head = head(3), .empty = {range("e", "f")}});
  EXPECT_EQ(own.use(reading({range("a", "b"), range("e", "f")}))->empty,
            (std::vector<bool>{false, true}));
  own.moved({.head = head(2), .on = Revision{3}, .empty = {range("a", "b")}});
  EXPECT_EQ(own.use(reading({range("a", "b")}))->head.revision, Revision{3})
      << "an answer that is late";
  own.forget();
  EXPECT_FALSE(own.use({}));
}

TEST(SoleWriter, KnowsTheKeyThatWasThere) {
  Own own;
  own.moved({.head = head(1), .present = "a"});
  EXPECT_TRUE(own.use({}, "a")->present);
  EXPECT_FALSE(own.use({}, "b")->present);
  EXPECT_FALSE(own.use({})->present);
  own.moved({.head = head(2), .on = Revision{1}});
  EXPECT_TRUE(own.use({}, "a")->present);
  own.moved({.head = head(4), .on = Revision{3}});
  EXPECT_FALSE(own.use({}, "a")->present) << "somebody else's was between";
  own.moved({.head = head(5), .on = Revision{4}, .present = "a"});
  own.moved({.head = head(6), .on = Revision{5}, .changes = {{.key = "a", .removed = true}}});
  EXPECT_FALSE(own.use({}, "a")->present);
  own.moved({.head = head(7), .on = Revision{6}, .present = "a"});
  own.removed("a");
  EXPECT_FALSE(own.use({}, "a")->present);
}

// A commit that puts and removes other keys does not invalidate what is known.
TEST(SoleWriter, KnowsWhatOtherWritesOfItsOwnDidNotTouch) {
  Own own;
  own.moved({.head = head(1), .empty = {range("a", "b")}, .present = "s"});
  own.moved({.head = head(2), .on = Revision{1}, .changes = {{.key = "x"}, {.key = "a1"}}});
  EXPECT_FALSE(own.use(reading({range("a", "b")}))->empty[0]);
  EXPECT_TRUE(own.use(reading({range("a2", "b")}), "s")->present);
  own.moved({.head = head(3), .on = Revision{2}, .changes = {{.key = "a1", .removed = true}}});
  EXPECT_TRUE(own.use(reading({range("a", "b")}))->empty[0]);
  own.moved({.head = head(4),
             .on = Revision{3},
             .changes = {{.key = "a1", .removed = true}, {.key = "a1"}}});
  EXPECT_FALSE(own.use(reading({range("a", "b")}))->empty[0]) << "removed, then put";
}

TEST(SoleWriter, IsLeftForAWhileByWhoWasWrong) {
  Own own;
  std::uint64_t number = 0;
  for (const int pause : {64, 128}) {
    own.was_not_ours();
    own.moved({.head = head(++number)});
    for (int i = 0; i < pause; ++i) EXPECT_FALSE(own.use({}));
    EXPECT_TRUE(own.use({}));
  }
}

}  // namespace
}  // namespace tenure::stores
