// semver.hpp: versions and ranges as npm reads them (semver.org 2.0, node-semver's ranges). Pure.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tenure::pipeline {

struct Version {
  std::array<std::uint64_t, 3> numbers{};
  std::vector<std::string> prerelease;  // 1.0.0-beta.2: "beta", "2".

  [[nodiscard]] static std::optional<Version> parse(std::string_view text);
  friend std::weak_ordering operator<=>(const Version& a, const Version& b);
  friend bool operator==(const Version& a, const Version& b) = default;
};

// Whether a range such as ^1.2, ~1, 1.x, >=1 <2, 1 - 3, a || b includes the version. As in npm, a
// version with a prerelease is only included by a comparator with a prerelease of the same numbers.
// Null: it is not a range.
[[nodiscard]] std::optional<bool> range_includes(std::string_view range, const Version& version);

}  // namespace tenure::pipeline
