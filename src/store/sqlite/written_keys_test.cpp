#include "store/sqlite/written_keys.hpp"

#include <gtest/gtest.h>

namespace tenure::sqlite {
namespace {

using Keys = WrittenKeys::Keys;

TEST(WrittenKeys, HasWhatWasPutAndNotRemovedSince) {
  WrittenKeys written;
  EXPECT_EQ(written.keys(), Keys{});
  written.put("b");
  written.put("a");
  written.put("");
  written.remove("b");
  written.remove("c");
  EXPECT_EQ(written.keys(), (Keys{"", "a"}));
  written.put("b");
  written.put("a");
  written.remove("");
  EXPECT_EQ(written.keys(), (Keys{"a", "b"}));
}

TEST(WrittenKeys, BeginsAnewWhenCleared) {
  WrittenKeys written;
  written.put("a");
  EXPECT_EQ(written.keys(), Keys{"a"});
  written.put("b");
  written.clear();
  EXPECT_EQ(written.keys(), Keys{});
  written.put("c");
  EXPECT_EQ(written.keys(), Keys{"c"});
}

}  // namespace
}  // namespace tenure::sqlite
