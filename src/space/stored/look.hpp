// look.hpp: looking back: which earlier tickets are in a ticket's way, by limit-1 reads.
//
// For each claim, in each class whose mode excludes it: the last earlier one on each path above and
// on the path itself, and any one below it.
// Which groups there are is not known before: a caller tells which classes it knows, and the ranges
// between those are read as well, so that one that it does not know shows itself. Then it looks
// again. A key among the groups that has no class counts as a class of its own: it is no claim, so
// it is in nobody's way, and must not hide what comes after it.
//
// Cost: (depth + 2) reads a class, however many tickets there are; except that below a path later
// tickets are passed over one by one. Some stores keep what was removed for a while, and have to
// pass over that too: a read begins where the line was last seen to be empty.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/annotations.hpp"
#include "base/mutex.hpp"
#include "tenure/claim.hpp"
#include "tenure/store.hpp"

namespace tenure::stored {

// Limits up to this are watched member by member.
inline constexpr std::uint32_t max_watched_members = 64;

// Up to where lines, which are the tickets of a class on one path, are known to be empty for good.
//
// A ticket's key ends in its number, and new numbers are larger than all before. What can still
// come with an old number is a ticket that is downgraded: from a line above, or of the exclusive
// class. A ticket that is in the way of any on a line is in one from where it could get there. So
// whoever was free to go, with nothing earlier in its way, knows that nothing earlier will come to
// the lines that it looked at.
//
// Thread safety: all of it.
class Floors {
 public:
  // Of the line of what begins with this.
  [[nodiscard]] Revision of(const std::string& line) const;
  void raise(const std::string& line, Revision to);

 private:
  static constexpr std::size_t max_lines = 4096;
  mutable base::Mutex mutex_;
  std::unordered_map<std::string, Revision> lines_ TENURE_GUARDED_BY(mutex_);
};

class Look {
 public:
  // `known` are classes, without the exclusive one. `number`: of the ticket, or this_apply in the
  // apply that appends it.
  Look(std::span<const Claim> claims, std::span<const std::string> known, Revision number,
       const Floors& floors);

  [[nodiscard]] const std::vector<Range>& ranges() const noexcept { return ranges_; }

  struct Found {
    std::vector<std::string> unknown;  // Classes to look for as well. Then the rest says nothing.
    std::vector<Entry> blockers;       // One of these has to go or change first. None: granted.
    bool by_limit = false;             // Any of them: together they fill a limit.
    std::vector<std::string> crowds;   // Prefixes of limits too large to name their members.
    [[nodiscard]] bool free() const noexcept {
      return unknown.empty() && blockers.empty() && crowds.empty();
    }
  };
  // `reads` begins with one list for each of ranges().
  [[nodiscard]] Found found(std::span<const std::vector<Entry>> reads) const;
  // It was free: all lines that were read are empty up to the ticket's own number.
  void raise(Floors& floors, Revision number) const;

 private:
  void add_class(const Claim& claim, std::string_view cls, const Floors& floors);
  void add_limit(const Claim& claim, std::string_view cls);
  void add_gaps(std::span<const std::string> known);
  [[nodiscard]] Range until_own(std::string prefix) const;

  struct Limit {
    std::size_t range;
    std::uint32_t limit;
  };
  struct Line {
    std::size_t range;
    std::size_t prefix;  // So many bytes of where it begins.
  };
  Revision number_;
  std::vector<Line> lines_;
  std::vector<Range> ranges_;  // Conflicts, then limits, then gaps.
  std::size_t conflicts_ = 0;
  std::vector<Limit> limits_;
};

}  // namespace tenure::stored
