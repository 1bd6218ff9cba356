#include "tests/stress/tree.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "tenure/rule.hpp"

namespace tenure::stress {
namespace {

constexpr std::array<std::size_t, 4> widths = {8, 24, 56, 112};

std::vector<Path> plant() {
  std::vector<Path> all;
  std::vector<Path> level = {Path{}};
  for (const std::size_t width : widths) {
    std::vector<Path> next;
    for (std::size_t i = 0; i < width; ++i) {
      const std::string name(1, static_cast<char>('a' + (i / level.size())));
      next.push_back(level[i % level.size()] / Path::of(name));
    }
    all.insert(all.end(), next.begin(), next.end());
    level = std::move(next);
  }
  return all;
}

// Most requests are for leaves; otherwise all would wait for all. Some leaves are requested often.
constexpr std::size_t leaves = widths.back();
constexpr std::size_t in_demand = 6;

const Path& leaf(std::size_t number) { return tree()[tree().size() - leaves + number]; }

Path random_path(Random& random) {
  if (one_in(random, 400)) return {};
  if (one_in(random, 100)) return quarrel();
  if (one_in(random, 10)) return tree()[below(random, tree().size())];
  if (one_in(random, 4)) return leaf(below(random, in_demand));
  const Path& path = leaf(below(random, leaves));
  return one_in(random, 3) ? path.parent() : path;
}

// Mostly one permit, sometimes several.
Mode random_permits(Random& random, const Path& path) {
  const std::uint32_t limit = limit_of(path);
  const bool several = one_in(random, 3);
  return Mode::permits(limit).take(several ? 1 + static_cast<std::uint32_t>(below(random, limit))
                                           : 1);
}

Mode random_mode(Random& random, const Path& path) {
  if (path == quarrel()) return Mode::permits(1 + static_cast<std::uint32_t>(below(random, 3)));
  // Every second one of those is a semaphore that is full most of the time.
  const bool semaphore = path == leaf(0) || path == leaf(2) || path == leaf(4);
  if (semaphore && !one_in(random, 8)) return random_permits(random, path);
  const std::uint64_t kind = below(random, 20);
  if (kind < 8) return Mode::exclusive();
  if (kind < 13) return Mode::shared();
  if (kind < 15) return Mode::group("pull");
  if (kind < 16) return Mode::group("push");
  return random_permits(random, path);
}

}  // namespace

const std::vector<Path>& tree() {
  static const std::vector<Path> all = plant();
  return all;
}

std::uint32_t limit_of(const Path& path) {
  std::uint32_t sum = 0;
  for (const char c : path.text()) sum += static_cast<unsigned char>(c);
  return 2 + (sum % 2);
}

const Path& quarrel() {
  static const Path path = Path::of("quarrel");
  return path;
}

std::vector<Claim> random_claims(Random& random) {
  const std::uint64_t count = one_in(random, 2) ? 1 : 1 + below(random, 3);
  std::vector<Claim> claims;
  while (claims.size() < count) {
    const Path path = random_path(random);
    if (std::ranges::find(claims, path, &Claim::path) != claims.end()) continue;
    claims.emplace_back(path, random_mode(random, path));
  }
  return claims;
}

std::vector<Claim> random_narrowing(Random& random, std::vector<Claim> claims) {
  const std::vector<Claim> held = claims;
  if (claims.size() > 1 && one_in(random, 2)) {
    claims.erase(claims.begin() + static_cast<std::ptrdiff_t>(below(random, claims.size())));
  }
  for (Claim& claim : claims) {
    if (claim.path == quarrel()) continue;
    if (claim.mode.limit() == 0 && one_in(random, 3)) claim.path = claim.path / Path::of("a");
    if (claim.mode.weight() > 1 && one_in(random, 2)) claim = claim.take(claim.mode.weight() - 1);
    if (!claim.mode.is_exclusive() || one_in(random, 3)) continue;
    claim.mode = one_in(random, 2) ? Mode::shared() : Mode::permits(limit_of(claim.path));
  }
  if (find_downgrade_fault(held, claims).has_value()) return {};
  return claims;
}

}  // namespace tenure::stress
