#include "space/stored/conflict_query.hpp"

#include <algorithm>
#include <utility>

#include "space/stored/keys.hpp"
#include "space/stored/row.hpp"
#include "tenure/rule.hpp"

namespace tenure::stored {
namespace {

// Read of a range that may contain entries of the claim's own group.
constexpr std::uint32_t few_entries = 4;

// How much of a limit the members take. One that cannot be read takes more than is left: the ticket
// waits for it, and the caller learns why when it looks at its blockers.
std::uint64_t taken(std::span<const Entry> members, std::uint32_t left) {
  std::uint64_t sum = 0;
  for (const Entry& member : members) sum += weight_in(member).value_or(left + 1);
  return sum;
}

}  // namespace

Revision EmptyPrefixes::end_of(const std::string& line) const {
  const base::Mutex::Scoped lock{mutex_};
  const auto at = lines_.find(line);
  return at == lines_.end() ? Revision{} : at->second;
}

void EmptyPrefixes::extend(const std::string& line, Revision to) {
  const base::Mutex::Scoped lock{mutex_};
  if (lines_.size() >= max_lines) lines_.clear();
  Revision& end = lines_[line];
  end = std::max(end, to);
}

ConflictQuery::ConflictQuery(std::span<const Claim> claims, Regions seen, Revision number,
                             const EmptyPrefixes& empty, Extent extent, Exempt exempt)
    : number_(number), replaces_(exempt.replaces) {
  for (const Claim& claim : claims) add_lines(claim, exclusive_region, empty);
  for (const Claim& claim : claims) {
    if (seen.shared && claim.mode.kind() != Mode::Kind::shared) {
      add_lines(claim, shared_region, empty);
    }
  }
  for (const Claim& claim : claims) {
    if (seen.groups) add_groups(claim, extent);
  }
  for (const Claim& claim : claims) {
    if ((exempt.kept & 1U) == 0) add_limit(claim, extent);
    exempt.kept >>= 1U;
  }
  add_unseen(claims, seen);
}

// The entries of a line that are earlier than the ticket. A key ends in the ticket's number.
Range ConflictQuery::until_own(std::string line) const {
  Range range = Range::prefix(std::move(line));
  if (number_ == this_apply) {
    range.before = this_apply;
  } else {
    range.to = range.from + stamp(number_);
  }
  return range;
}

void ConflictQuery::add_conflict(Range range, std::string_view own) {
  // The replaced ticket may have an entry, and a shadow, for each of its claims here.
  if (replaces_ != Token{} && range.limit != 0) range.limit += 2 * max_claims;
  ranges_.push_back(std::move(range));
  owns_.push_back(own);
}

void ConflictQuery::add_lines(const Claim& claim, std::string_view region,
                              const EmptyPrefixes& empty) {
  for (std::size_t depth = 0; depth <= claim.path.depth(); ++depth) {
    Range line = until_own(here(region, claim.path.prefix(depth))).last();
    lines_.push_back({.range = ranges_.size(), .size = line.from.size()});
    const Revision end = empty.end_of(line.from);
    if (end != Revision{} && end < number_) line.from += stamp(end);
    add_conflict(std::move(line), {});
  }
  Range below_it = Range::prefix(below(region, claim.path)).first();
  below_it.before = number_;
  add_conflict(std::move(below_it), {});
}

void ConflictQuery::add_groups(const Claim& claim, Extent extent) {
  const std::string_view own = claim.mode.name();
  const bool whole = extent == Extent::all && !own.empty();
  const bool in_region = claim.mode.kind() == Mode::Kind::named || claim.mode.limit() != 0;
  for (std::size_t depth = 0; depth <= claim.path.depth(); ++depth) {
    const Path path = claim.path.prefix(depth);
    Range groups = Range::prefix(here(group_region, path)).last();
    groups.before = number_;
    if (!in_region) {  // A shared claim seldom meets a limited group of its own name.
      if (whole) groups.limit = 0;
      add_conflict(std::move(groups), own);
      continue;
    }
    Range behind = groups;
    groups.to = here(path, own);
    behind.from = prefix_end(groups.to);
    add_conflict(std::move(groups), {});
    add_conflict(std::move(behind), {});
  }
  Range below_it = Range::prefix(below(group_region, claim.path)).first();
  if (!own.empty()) below_it.limit = whole ? 0 : few_entries;
  below_it.before = number_;
  add_conflict(std::move(below_it), own);
}

void ConflictQuery::add_limit(const Claim& claim, Extent extent) {
  if (claim.mode.limit() == 0) return;
  const std::uint32_t left = claim.mode.limit() - claim.mode.weight();
  const bool crowd = claim.mode.limit() > max_watched_members;
  const bool counted = crowd && extent == Extent::few;
  limits_.push_back({.range = ranges_.size(), .left = left, .crowd = crowd, .counted = counted});
  Range range = until_own(line_of(claim)).last(left + 1);
  if (counted) {
    range.skip = left;
    range.limit = 1;
  }
  ranges_.push_back(std::move(range));
  if (counted) ranges_.push_back(until_own(other_limit_line(claim)).last());
}

// The two regions are adjacent. A later query of the ticket may find the ticket itself; the region
// then counts as seen, which is harmless. Later tickets are not filtered out here, since a region
// may have very many.
void ConflictQuery::add_unseen(std::span<const Claim> claims, Regions seen) {
  const bool shared = !seen.shared && std::ranges::any_of(claims, [](const Claim& claim) {
    return claim.mode.kind() != Mode::Kind::shared;
  });
  if (!shared && seen.groups) return;
  Range range;
  range.from = shared ? shared_region : group_region;
  range.to = prefix_end(std::string{seen.groups ? shared_region : group_region});
  range.limit = 1;
  if (number_ == this_apply) range.before = this_apply;
  ranges_.push_back(std::move(range));
}

std::vector<Range> ConflictQuery::next(std::size_t done, std::size_t most) const {
  const auto from = ranges_.begin() + static_cast<std::ptrdiff_t>(done);
  const std::size_t count = std::min(most, ranges_.size() - done);
  return {from, from + static_cast<std::ptrdiff_t>(count)};
}

void ConflictQuery::record_empty(EmptyPrefixes& empty, Revision number) const {
  if (replaces_ != Token{}) return;  // Its entries are still there.
  for (const Line& line : lines_) {
    empty.extend(ranges_[line.range].from.substr(0, line.size), number);
  }
}

// Chooses the latest of several: when it goes, the earlier ones most likely are gone.
void ConflictQuery::find_blocker(std::span<const std::vector<Entry>> reads, Found& result) const {
  const Entry* latest = nullptr;
  for (std::size_t i = 0; i < std::min(owns_.size(), reads.size()); ++i) {
    bool own_only = !owns_[i].empty() && ranges_[i].limit == reads[i].size();
    for (const Entry& entry : reads[i]) {
      if (replaces_ != Token{} && number_in(entry.key) == replaces_) continue;
      if (!owns_[i].empty() && group_in(entry.key) == owns_[i]) continue;
      own_only = false;
      if (latest == nullptr || number_in(entry.key) > number_in(latest->key)) latest = &entry;
    }
    result.own_only = result.own_only || (own_only && ranges_[i].limit != 0);
  }
  if (latest != nullptr) result.blockers.push_back(*latest);
}

void ConflictQuery::find_limit(std::span<const std::vector<Entry>> reads, Found& result) const {
  for (const Limit& limit : limits_) {
    if (limit.range + (limit.counted ? 1 : 0) >= reads.size()) return;
    const std::vector<Entry>& members = reads[limit.range];
    const bool full = limit.counted ? !members.empty() : taken(members, limit.left) > limit.left;
    if (!full) {
      if (limit.counted && !reads[limit.range + 1].empty()) result.own_only = true;
    } else if (limit.crowd) {
      result.crowds.push_back(ranges_[limit.range].from);
    } else {
      result.by_limit = true;
      result.blockers = members;
      return;  // One full limit is enough to wait for.
    }
  }
}

ConflictQuery::Found ConflictQuery::found(std::span<const std::vector<Entry>> reads) const {
  Found result;
  result.partial = reads.size() < ranges_.size();
  std::size_t judged = owns_.size();
  for (const Limit& limit : limits_) judged += limit.counted ? 2 : 1;
  for (std::size_t i = judged; i < std::min(ranges_.size(), reads.size()); ++i) {
    for (const Entry& entry : reads[i]) {
      const bool shared = entry.key.starts_with(shared_region);
      (shared ? result.unseen.shared : result.unseen.groups) = true;
    }
  }
  find_blocker(reads, result);
  if (result.blockers.empty()) find_limit(reads, result);
  return result;
}

}  // namespace tenure::stored
