// uuid.hpp: a 128-bit identifier and its one text form (RFC 9562, lower case, with dashes).
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace tenure {

struct Uuid {
  std::array<std::byte, 16> bytes{};

  // Accepts upper and lower case, with the dashes where they belong. Anything else is nullopt.
  [[nodiscard]] static std::optional<Uuid> parse(std::string_view text) noexcept;
  [[nodiscard]] std::string text() const;

  friend auto operator<=>(const Uuid&, const Uuid&) = default;
};

}  // namespace tenure
