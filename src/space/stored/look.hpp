// look.hpp: looking back: which earlier tickets are in a ticket's way, by limit-1 reads.
//
// For each claim, in each region (keys.hpp) that has modes which exclude it: the last earlier one
// on each path above and on the path itself, and any one below it. A claim in a group must not wait
// for its own group. So in the region of groups it reads, per path, the groups before its own and
// those behind it. Below its path, and where a shared claim meets a limited group "shared", it
// reads a few entries; where all of those are of its own group, it has to look again, at the whole
// range.
//
// Most spaces have no groups, or only shared claims. Until somebody has been seen in a region, one
// read of the whole region tells that nobody is there.
//
// Cost: depth + 2 reads per region, twice that for a group in the region of groups, however many
// tickets and groups there are; except that tickets which are later, below a path or in other
// groups on it, are passed over one by one. Some stores keep what was removed for a while, and have
// to pass over that too: a read of a line begins where the line was last seen to be empty.
//
// Which one to wait for. Any earlier one that conflicts is right. Waiting for the latest makes a
// queue a chain, in which a release wakes one waiter. In a line the last entry is the latest. Among
// the groups on one path, reads begin at the last group, and groups sort by the length of their
// name, then by name: groups that are numbered as they come ("run-9", "run-10") are found latest
// first, and two groups that take turns find each other's latest, so both queues are chains. An
// exclusive ticket behind several groups may find an earlier one, and is woken once more for each
// group behind that at most. With n groups in random order a waiter is woken about ln n times. Only
// groups that come in descending order make all wait for the first one.
//
// Several steps. A store may refuse a transaction with many reads, so ranges() may be read in
// several applies, in order. That is sound because nothing earlier can get past them: a ticket only
// moves, when it is downgraded, from an exclusive claim to a group or to a path at or below its
// own, or, in the same group, to a path below. Ranges are in that order: the exclusive region
// first, then shared, then groups; in each from the root down to the path, and then what is below;
// limits, which count members of a group, and regions not yet seen are last. Where a ticket is in a
// range when that is read, it is found; where it is not, and comes there later, it comes from a
// range that was read before or in the same step, and was found there.
#pragma once

#include <cstddef>
#include <cstdint>
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
// So many reads, guards or writes in one apply; etcd refuses more than 128, its own included.
inline constexpr std::size_t max_operations = 120;

// Up to where lines of exclusive and shared claims are known to be empty for good.
//
// A ticket's key ends in its number, and new numbers are larger than all before. What can still
// come to a line with an old number is a ticket that is downgraded: its claim was exclusive, or in
// the line's own group and without a limit, on a path at or above the line's. A ticket that was
// free to go has looked, at all paths above those lines, for exclusive claims and for the line's
// group, since it conflicts with both, and there was no earlier one. So no earlier one can come.
// The lines in the region of groups have no floors: a range there has many lines in it.
//
// Thread safety: all of it.
class Floors {
 public:
  [[nodiscard]] Revision of(const std::string& line) const;
  void raise(const std::string& line, Revision to);

 private:
  static constexpr std::size_t max_lines = 4096;
  mutable base::Mutex mutex_;
  std::unordered_map<std::string, Revision> lines_ TENURE_GUARDED_BY(mutex_);
};

// Regions in which somebody has been seen. The exclusive one always counts as such.
struct Regions {
  bool shared = false;
  bool groups = false;
  [[nodiscard]] bool none() const noexcept { return !shared && !groups; }
};

class Look {
 public:
  enum class Extent : std::uint8_t { few, all };  // Of ranges that may have its own group in them.

  // `number`: of the ticket, or this_apply in the apply that appends it. The claims must outlive
  // the look.
  Look(std::span<const Claim> claims, Regions seen, Revision number, const Floors& floors,
       Extent extent = Extent::few);

  [[nodiscard]] const std::vector<Range>& ranges() const noexcept { return ranges_; }
  // Those behind the first `done`, `most` at a time.
  [[nodiscard]] std::vector<Range> next(std::size_t done, std::size_t most) const;

  struct Found {
    std::vector<Entry> blockers;      // One of these has to go or change first.
    bool by_limit = false;            // Any of them: together they fill a limit.
    std::vector<std::string> crowds;  // Lines of limits too large to name their members.
    // If there are none of these, they say what is missing before the ticket may be granted.
    Regions unseen;         // Regions to look at as well.
    bool own_only = false;  // Extent::few did not reach behind its own group.
    bool partial = false;   // More ranges are to be read.
    [[nodiscard]] bool blocked() const noexcept { return !blockers.empty() || !crowds.empty(); }
    [[nodiscard]] bool free() const noexcept {
      return !blocked() && unseen.none() && !own_only && !partial;
    }
  };
  // `reads` has one list for each of the first of ranges().
  [[nodiscard]] Found found(std::span<const std::vector<Entry>> reads) const;
  // It was free: all lines that were read are empty up to the ticket's own number.
  void raise(Floors& floors, Revision number) const;

 private:
  void add_lines(const Claim& claim, std::string_view region, const Floors& floors);
  void add_groups(const Claim& claim, Extent extent);
  void add_limit(const Claim& claim);
  void add_unseen(std::span<const Claim> claims, Regions seen);
  void add_conflict(Range range, std::string_view own);
  [[nodiscard]] Range until_own(std::string line) const;
  void find_blocker(std::span<const std::vector<Entry>> reads, Found& result) const;
  void find_limit(std::span<const std::vector<Entry>> reads, Found& result) const;

  struct Limit {
    std::size_t range;
    std::uint32_t limit;
  };
  struct Line {
    std::size_t range;
    std::size_t size;  // Of its name, where the range begins.
  };
  Revision number_;
  std::vector<Line> lines_;
  std::vector<Range> ranges_;           // Conflicts, then limits, then unseen regions.
  std::vector<std::string_view> owns_;  // Of each conflict: the group that does not count.
  std::vector<Limit> limits_;
};

}  // namespace tenure::stored
