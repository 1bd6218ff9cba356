// conflict_query.hpp: which earlier tickets block a ticket, as limit-1 reads of the store.
//
// For each claim, in each region (keys.hpp) with modes that exclude it, a query reads the last
// earlier entry on the claim's path and on each path above, and any one entry below the path. A
// claim in a group must not wait for its own group. So in the region of groups the query reads, per
// path, the groups that sort before its own and those that sort after. Below the path, and where a
// shared claim meets a limited group "shared", it reads a few entries. If all of them are of the
// claim's own group, the caller repeats the query with the whole range (Extent::all).
//
// Most spaces have no groups, or only shared claims. Until a ticket has been seen in a region, one
// read of the whole region shows that the region is empty.
//
// Cost: depth + 2 reads per region, twice that for a group in the region of groups, however many
// tickets and groups there are. But a read passes over later tickets, below the path or in other
// groups on it, one by one. Some stores keep removed entries for a while and pass over those too:
// therefore a read of a line begins where the line was last seen to be empty (EmptyPrefixes).
//
// Limits. A query reads as many of the latest members as the limit leaves for others, and one more:
// each takes at least 1, so these decide. It adds up their weights; only members that take more
// than 1 are parsed. Members of a limit above max_watched_members are counted by skipping them. If
// the line of shadows (keys.hpp) has members with weights, the caller repeats the query and reads
// all members (Extent::all).
//
// Which ticket to wait for. Waiting for any earlier ticket that conflicts is correct. Waiting for
// the latest one makes a queue a chain, in which a release wakes one waiter. In a line the last
// entry is the latest. Among the groups on one path, reads begin at the last group, and groups sort
// by the length of their name, then by name. So groups that are numbered as they come ("run-9",
// "run-10") are found latest first, and two groups that take turns find each other's latest: both
// queues are chains. An exclusive ticket behind several groups may find an earlier ticket; it is
// then woken at most once more for each later group. With n groups in random order a waiter is
// woken about ln n times. Only groups that come in descending order make all wait for the first.
//
// Several steps. A store may refuse a transaction with many reads, so ranges() may be read in
// several applies, in order. No earlier ticket can slip between them. A ticket moves only when it
// is downgraded: from an exclusive claim to a group, on the same path or below it, or within its
// group to a path below. Ranges are in that order: the exclusive region first, then shared, then
// groups; in each from the root down to the path, then what is below; limits, which count members
// of a group, and regions not yet seen come last. So a ticket that enters a range after it was read
// comes from a range that was read before or in the same step, and was found there.
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
#include "tenure/ticket.hpp"

namespace tenure::stored {

// Limits up to this are watched member by member.
inline constexpr std::uint32_t max_watched_members = 64;
// At most so many reads, guards or writes in one apply; etcd refuses more than 128, including those
// that the store adds.
inline constexpr std::size_t max_operations = 120;

// For lines of exclusive and shared claims: the revision up to which a line is empty for good.
//
// A ticket's key ends in its number, and new numbers are larger than all before. Only a downgraded
// ticket can enter a line with an old number: its claim was exclusive, or without a limit in the
// line's own group, on a path at or above the line's. A query that found nothing has read all paths
// above its lines for exclusive claims and for the line's group, since its claim conflicts with
// both. So when it is granted, no earlier ticket is left that could enter the line.
// Lines in the region of groups are not kept here: one range there covers many lines.
//
// Thread safety: all of it.
class EmptyPrefixes {
 public:
  [[nodiscard]] Revision end_of(const std::string& line) const;
  void extend(const std::string& line, Revision to);

 private:
  static constexpr std::size_t max_lines = 4096;
  mutable base::Mutex mutex_;
  std::unordered_map<std::string, Revision> lines_ TENURE_GUARDED_BY(mutex_);
};

// Regions in which a ticket has been seen. The exclusive region is always read as if so.
struct Regions {
  bool shared = false;
  bool groups = false;
  [[nodiscard]] bool none() const noexcept { return !shared && !groups; }
};

// What the ticket does not wait for.
struct Exempt {
  std::uint64_t kept = 0;  // As Ticket::kept: the limits of these claims are not read.
  Token replaces{};        // As Ticket::replaces: its entries are passed over.
};

class ConflictQuery {
 public:
  // How much to read of ranges that may contain the claim's own group.
  enum class Extent : std::uint8_t { few, all };

  // `number`: of the ticket, or this_apply in the apply that appends it. The claims must outlive
  // the query.
  ConflictQuery(std::span<const Claim> claims, Regions seen, Revision number,
                const EmptyPrefixes& empty, Extent extent = Extent::few, Exempt exempt = {});

  [[nodiscard]] const std::vector<Range>& ranges() const noexcept { return ranges_; }
  // The ranges after the first `done`, at most `most` of them.
  [[nodiscard]] std::vector<Range> next(std::size_t done, std::size_t most) const;

  struct Found {
    std::vector<Entry> blockers;      // The ticket waits until one of these goes or changes.
    bool by_limit = false;            // The blockers together fill a limit.
    std::vector<std::string> crowds;  // Lines whose limit is full and too large to list members.
    // Without blockers and crowds: what must still be read before the ticket may be granted.
    Regions unseen;         // These regions.
    bool own_only = false;  // Extent::few cannot tell for the claim's own group: repeat with all.
    bool partial = false;   // The remaining ranges.
    [[nodiscard]] bool blocked() const noexcept { return !blockers.empty() || !crowds.empty(); }
    [[nodiscard]] bool free() const noexcept {
      return !blocked() && unseen.none() && !own_only && !partial;
    }
  };
  // `reads` has one list for each of the first of ranges().
  [[nodiscard]] Found found(std::span<const std::vector<Entry>> reads) const;
  // Call it when the ticket was free: all lines that were read are empty up to its number.
  void record_empty(EmptyPrefixes& empty, Revision number) const;

 private:
  void add_lines(const Claim& claim, std::string_view region, const EmptyPrefixes& empty);
  void add_groups(const Claim& claim, Extent extent);
  void add_limit(const Claim& claim, Extent extent);
  void add_unseen(std::span<const Claim> claims, Regions seen);
  void add_conflict(Range range, std::string_view own);
  [[nodiscard]] Range until_own(std::string line) const;
  void find_blocker(std::span<const std::vector<Entry>> reads, Found& result) const;
  void find_limit(std::span<const std::vector<Entry>> reads, Found& result) const;

  struct Limit {
    std::size_t range;
    std::uint32_t left;  // If others take more than this, the ticket waits.
    bool crowd;          // Too many members to watch one by one.
    bool counted;        // Only the last member that counts was read; the next range: any shadow.
  };
  struct Line {
    std::size_t range;
    std::size_t size;  // Length of the line's name, at the front of the range's first key.
  };
  Revision number_;
  Token replaces_;
  std::vector<Line> lines_;
  std::vector<Range> ranges_;           // Conflicts, then limits, then unseen regions.
  std::vector<std::string_view> owns_;  // Per conflict range: the claim's own group, or empty.
  std::vector<Limit> limits_;
};

}  // namespace tenure::stored
