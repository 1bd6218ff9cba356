// tree.hpp: the paths that the workers compete for, and random requests for them.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "tenure/claim.hpp"

namespace tenure::stress {

using Random = std::mt19937_64;

[[nodiscard]] inline std::uint64_t below(Random& random, std::uint64_t end) {
  return random() % end;
}
[[nodiscard]] inline bool one_in(Random& random, std::uint64_t n) { return below(random, n) == 0; }

// 200 paths: 8 of one segment, 24 of two, 56 of three and 112 of four, each below another of them.
[[nodiscard]] const std::vector<Path>& tree();

// The limit of a path's semaphore, the same for all: 2 or 3.
[[nodiscard]] std::uint32_t limit_of(const Path& path);

// On this path contenders disagree about the limit on purpose; elsewhere a mismatch is an error.
[[nodiscard]] const Path& quarrel();

// One to three claims on different paths, sometimes on inner ones or on the root.
[[nodiscard]] std::vector<Claim> random_claims(Random& random);
// A valid downgrade of `claims`: some are dropped, weakened or narrowed. Empty: none was found.
[[nodiscard]] std::vector<Claim> random_narrowing(Random& random, std::vector<Claim> claims);

}  // namespace tenure::stress
