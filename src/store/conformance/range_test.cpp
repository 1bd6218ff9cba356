// What a range reads.
#include <string>

#include "store/conformance.hpp"

namespace tenure::conformance {
namespace {

using namespace std::string_literals;

TEST_P(StoreConformance, ReadsRangesInTheOrderOfBytes) {
  for (const std::string& key :
       {"b"s, "\xff"s, "a"s, "b\0"s, "\x7f"s, "b\xff"s, "\x80"s, "ba"s, "c"s, "\xff\xff"s}) {
    put(key);
  }
  EXPECT_EQ(keys(read(everything())), R"(a b b\x00 ba b\xff c \x7f \x80 \xff \xff\xff)");
  EXPECT_EQ(keys(read(Range::prefix("b"))), R"(b b\x00 ba b\xff)");
  EXPECT_EQ(keys(read(Range::prefix("b\xff"))), R"(b\xff)");
  EXPECT_EQ(keys(read(Range::prefix("\xff"))), R"(\xff \xff\xff)");
  EXPECT_EQ(keys(read(Range::prefix("\xff\xff"))), R"(\xff\xff)");
  EXPECT_EQ(keys(read(Range::prefix("\x7f"))), R"(\x7f)");
  EXPECT_EQ(keys(read(Range::key("b"))), "b");
  EXPECT_EQ(keys(read(Range::key("\xff"))), R"(\xff)");
  EXPECT_EQ(keys(read(Range::key("d"))), "");
  EXPECT_EQ(keys(read(between("b\0"s, "c"))), R"(b\x00 ba b\xff)");
  EXPECT_EQ(keys(read(between("", "b"))), "a");
  EXPECT_EQ(keys(read(between("bb", ""))), R"(b\xff c \x7f \x80 \xff \xff\xff)");
  EXPECT_EQ(keys(read(between("d", "e"))), "");
}

TEST_P(StoreConformance, ReadsAsMuchOfARangeAsAskedFor) {
  for (const char* key : {"a", "b1", "b2", "b3", "b4", "c"}) put(key);
  const Range range = Range::prefix("b");
  EXPECT_EQ(keys(read(range.first())), "b1");
  EXPECT_EQ(keys(read(range.first(2))), "b1 b2");
  EXPECT_EQ(keys(read(range.first(0))), "b1 b2 b3 b4");
  EXPECT_EQ(keys(read(range.first(9))), "b1 b2 b3 b4");
  EXPECT_EQ(keys(read(range.last())), "b4");
  EXPECT_EQ(keys(read(range.last(3))), "b4 b3 b2");
  EXPECT_EQ(keys(read(range.last(0))), "b4 b3 b2 b1");
  EXPECT_EQ(keys(read(between("", "").last(2))), "c b4");

  Range skipping = range;
  skipping.skip = 1;
  EXPECT_EQ(keys(read(skipping)), "b2 b3 b4");
  EXPECT_EQ(keys(read(skipping.first(2))), "b2 b3");
  EXPECT_EQ(keys(read(skipping.last(2))), "b3 b2");
  skipping.skip = 3;
  EXPECT_EQ(keys(read(skipping.last(2))), "b1");
  skipping.skip = 4;
  EXPECT_EQ(keys(read(skipping)), "");
  skipping.skip = std::numeric_limits<std::uint32_t>::max();
  EXPECT_EQ(keys(read(skipping.last())), "");
}

TEST_P(StoreConformance, ReadsOnlyWhatEndsInASmallerStamp) {
  // The stamp decides, not when the entry was created, nor the part of the key before the stamp.
  for (const std::uint64_t number : {7U, 300U, 2U}) put("a/" + stamp({number}));
  put("a/x/" + stamp({5}));
  const auto numbers = [this](const Range& range) {
    std::string text;
    for (const Entry& entry : read(range)) {
      if (!text.empty()) text += ' ';
      text += std::to_string(stamp_of(entry.key).value);
    }
    return text;
  };
  Range range = Range::prefix("a/");
  EXPECT_EQ(numbers(range), "2 7 300 5");
  range.before = {7};
  EXPECT_EQ(numbers(range), "2 5");
  EXPECT_EQ(numbers(range.last()), "5");
  range.before = {8};
  EXPECT_EQ(numbers(range), "2 7 5");
  EXPECT_EQ(numbers(range.first(2)), "2 7");
  range.skip = 1;
  EXPECT_EQ(numbers(range), "7 5");  // Only entries that count are skipped.
  EXPECT_EQ(numbers(range.last()), "7");
  range.skip = 0;
  range.before = {301};
  EXPECT_EQ(numbers(range), "2 7 300 5");
  range.before = {1};
  EXPECT_EQ(numbers(range), "");
}

TEST_P(StoreConformance, ReadsWhatWasAppendedBeforeThisApply) {
  Range range = Range::prefix("a/");
  range.before = this_apply;
  Revision last;
  for (std::size_t i = 0; i < 3; ++i) {
    const Outcome outcome =
        store().apply(txn({}, {Write::append("a/", "")}, {range, Range::prefix("a/")}));
    EXPECT_EQ(outcome.reads.at(0).size(), i);
    EXPECT_EQ(outcome.reads.at(1).size(), i + 1);
    if (i > 0) {
      EXPECT_EQ(outcome.reads.at(0).back().key, "a/" + stamp(last));
    }
    last = outcome.revision;
  }
  // An apply that writes nothing appends nothing: every entry is older.
  EXPECT_EQ(read(range).size(), 3U);
  const Outcome refused =
      store().apply(txn({Guard::present("x")}, {Write::append("a/", "")}, {range}));
  EXPECT_EQ(refused.reads.at(0).size(), 3U);
}

// Keys that no append made: their last bytes are a stamp above all revisions, or are too few for
// one.
TEST_P(StoreConformance, ReadsKeysWithoutAStamp) {
  const std::string above(stamp_size, '\xfe');
  put("flow/7");
  put("flow/7/a" + above);
  put("flow/7/b" + above);
  const auto count = [this](const std::string& prefix, Revision before) {
    Range range = Range::prefix(prefix);
    range.before = before;
    return store().apply(txn({}, {Write::append("log/", "")}, {range})).reads.at(0).size();
  };
  // An entry that `before` excludes from one read is still there for the next one.
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(count("flow/", this_apply), 1U);
    EXPECT_EQ(count("flow/", {}), 3U);
    EXPECT_EQ(count("flow/7/", this_apply), 0U);
    EXPECT_EQ(count("flow/7/", {}), 2U);
  }
  // Every stamp is before an apply that writes nothing, even the largest.
  put("z" + stamp(this_apply));
  Range last = Range::prefix("z");
  last.before = this_apply;
  EXPECT_EQ(read(last).size(), 1U);
  last.before = {7};
  EXPECT_EQ(read(last).size(), 0U);
}

TEST_P(StoreConformance, ReadsSeveralRangesOnce) {
  put("a");
  put("b");
  const Outcome outcome =
      store().apply(txn({}, {}, {Range::key("b"), Range::key("x"), everything(), Range::key("b")}));
  ASSERT_EQ(outcome.reads.size(), 4U);
  EXPECT_EQ(keys(outcome.reads[0]), "b");
  EXPECT_EQ(keys(outcome.reads[1]), "");
  EXPECT_EQ(keys(outcome.reads[2]), "a b");
  EXPECT_EQ(keys(outcome.reads[3]), "b");
}

}  // namespace
}  // namespace tenure::conformance
