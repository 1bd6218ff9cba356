#include "tenure/uuid.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <optional>
#include <string>

namespace tenure {
namespace {

const std::string sample = "01234567-89ab-cdef-fedc-ba9876543210";

TEST(Uuid, PrintsWhatItParsed) {
  const auto uuid = Uuid::parse(sample);
  ASSERT_TRUE(uuid.has_value());
  EXPECT_EQ(uuid->text(), sample);
  EXPECT_EQ(uuid->bytes[0], std::byte{0x01});
  EXPECT_EQ(uuid->bytes[15], std::byte{0x10});
  EXPECT_EQ(Uuid{}.text(), "00000000-0000-0000-0000-000000000000");
}

TEST(Uuid, ParsesCapitalsAndPrintsSmallLetters) {
  EXPECT_EQ(Uuid::parse("01234567-89AB-CDEF-FEDC-BA9876543210"), Uuid::parse(sample));
}

TEST(Uuid, OrdersAsItsTextDoes) {
  EXPECT_LT(Uuid::parse("00000000-0000-0000-0000-0000000000ff"),
            Uuid::parse("00000000-0000-0000-0000-000000000100"));
}

// Method: replaces every single byte of a valid text by each other byte. Only a hex digit may
// replace a hex digit, and only a dash a dash.
TEST(Uuid, RefusesEverythingElse) {
  for (std::size_t at = 0; at < sample.size(); ++at) {
    for (int byte = 0; byte < 256; ++byte) {
      std::string text = sample;
      text[at] = static_cast<char>(byte);
      const bool hex = (byte >= '0' && byte <= '9') || (byte >= 'a' && byte <= 'f') ||
                       (byte >= 'A' && byte <= 'F');
      EXPECT_EQ(Uuid::parse(text).has_value(), sample[at] == '-' ? byte == '-' : hex) << text;
    }
  }
  EXPECT_EQ(Uuid::parse(""), std::nullopt);
  EXPECT_EQ(Uuid::parse(sample + "0"), std::nullopt);
  EXPECT_EQ(Uuid::parse(sample.substr(1)), std::nullopt);
  EXPECT_EQ(Uuid::parse("{" + sample + "}"), std::nullopt);
}

}  // namespace
}  // namespace tenure
