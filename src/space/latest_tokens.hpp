// latest_tokens.hpp: the largest token so far, by path and group. For tests and checkers: all
// earlier tickets that conflict with a request are compared by a few lookups, however many there
// were.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <unordered_map>
#include <vector>

#include "tenure/claim.hpp"
#include "tenure/ticket.hpp"

namespace tenure {

// `Of` tells whose token it was.
template <class Of>
class LatestTokens {
 public:
  struct Latest {
    Token token;
    Of of;
  };

  // The ticket with the largest token among those that conflict, or null.
  [[nodiscard]] const Latest* conflicting(std::span<const Claim> claims) const {
    const Latest* latest = nullptr;
    for (const Claim& claim : claims) {
      for (std::size_t depth = 0; depth <= claim.path.depth(); ++depth) {
        look(here_, claim.path.prefix(depth), claim.mode, latest);
      }
      look(below_, claim.path, claim.mode, latest);
    }
    return latest;
  }

  void add(std::span<const Claim> claims, const Latest& latest) {
    for (const Claim& claim : claims) {
      put(here_[claim.path], claim.mode, latest);
      for (std::size_t depth = 0; depth < claim.path.depth(); ++depth) {
        put(below_[claim.path.prefix(depth)], claim.mode, latest);
      }
    }
  }

 private:
  struct Best {
    Mode mode;
    Latest latest;
  };
  using Table = std::unordered_map<Path, std::vector<Best>>;

  static void look(const Table& table, const Path& path, const Mode& mode, const Latest*& latest) {
    const auto found = table.find(path);
    if (found == table.end()) return;
    for (const Best& best : found->second) {
      if (!best.mode.excludes(mode)) continue;
      if (latest == nullptr || best.latest.token > latest->token) latest = &best.latest;
    }
  }
  static void put(std::vector<Best>& all, const Mode& mode, const Latest& latest) {
    const auto found = std::ranges::find_if(all, [&mode](const Best& best) {
      return best.mode.same_group(mode) || (best.mode.is_exclusive() && mode.is_exclusive());
    });
    if (found == all.end()) {
      all.push_back({.mode = mode, .latest = latest});
    } else if (latest.token > found->latest.token) {
      found->latest = latest;
    }
  }

  Table here_;
  Table below_;
};

}  // namespace tenure
