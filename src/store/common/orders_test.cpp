#include "store/common/orders.hpp"

#include <gtest/gtest.h>

#include <optional>
#include <string>

namespace tenure::stores {
namespace {

// Keys as space/stored/keys.hpp writes them.
std::string exclusive(const std::string& path) { return "\x01" + path; }
std::string shared(const std::string& path) { return "\x02\x01" + path; }
const std::string root{"\0", 1};
const std::string book{"\1\4book\0", 7};
const std::string chapter{"\1\4book\1\1c\0", 10};

TEST(Orders, AreNamedByTheRoot) {
  EXPECT_EQ(order_of_key(exclusive(book) + "12345678"), "\1\4book");
  EXPECT_EQ(order_of_key(shared(chapter)), "\1\4book");
  EXPECT_EQ(order_of_key(exclusive(root)), "/");
  EXPECT_EQ(order_of_key("mine"), "mine");
  EXPECT_EQ(order_of(Range::prefix(exclusive(chapter))), "\1\4book");
  EXPECT_EQ(order_of(Range::prefix(exclusive("\1\4book\1"))), "\1\4book") << "below it";
  EXPECT_EQ(order_of(Range::prefix(exclusive("\1"))), "/") << "below /";
  EXPECT_EQ(order_of(Range::prefix(exclusive(root))), "/");
  EXPECT_EQ(order_of(Range::prefix("\x02")), std::nullopt) << "a whole region";
  EXPECT_EQ(order_of(Range::key("mine")), "mine");
  EXPECT_EQ(order_of(Range::prefix("mine")), std::nullopt);
}

}  // namespace
}  // namespace tenure::stores
