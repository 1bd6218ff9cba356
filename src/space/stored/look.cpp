#include "space/stored/look.hpp"

#include <algorithm>
#include <utility>

#include "space/stored/keys.hpp"

namespace tenure::stored {

Revision Floors::of(const std::string& line) const {
  const base::Mutex::Scoped lock{mutex_};
  const auto at = lines_.find(line);
  return at == lines_.end() ? Revision{} : at->second;
}

void Floors::raise(const std::string& line, Revision to) {
  const base::Mutex::Scoped lock{mutex_};
  if (lines_.size() >= max_lines) lines_.clear();
  Revision& floor = lines_[line];
  floor = std::max(floor, to);
}

Look::Look(std::span<const Claim> claims, std::span<const std::string> known, Revision number,
           const Floors& floors)
    : number_(number) {
  for (const Claim& claim : claims) {
    add_class(claim, exclusive_class, floors);
    for (const std::string& cls : known) {
      if (!class_in(cls).empty()) add_class(claim, cls, floors);
    }
  }
  conflicts_ = ranges_.size();
  for (const Claim& claim : claims) add_limit(claim, class_of(claim.mode));
  add_gaps(known);
}

// What is in a class on one path, and earlier. Numbers are the ends of the keys.
Range Look::until_own(std::string prefix) const {
  Range range = Range::prefix(std::move(prefix));
  if (number_ == this_apply) {
    range.before = this_apply;
  } else {
    range.to = range.from + stamp(number_);
  }
  return range;
}

void Look::add_class(const Claim& claim, std::string_view cls, const Floors& floors) {
  if (!claim.mode.is_exclusive() && group_in(cls) == claim.mode.name()) return;
  for (std::size_t depth = 0; depth <= claim.path.depth(); ++depth) {
    Range line = until_own(here(cls, claim.path.prefix(depth))).last();
    lines_.push_back({.range = ranges_.size(), .prefix = line.from.size()});
    const Revision floor = floors.of(line.from);
    if (floor != Revision{} && floor < number_) line.from += stamp(floor);
    ranges_.push_back(std::move(line));
  }
  Range below_it = Range::prefix(below(cls, claim.path)).first();
  below_it.before = number_;
  ranges_.push_back(std::move(below_it));
}

void Look::add_limit(const Claim& claim, std::string_view cls) {
  const std::uint32_t limit = claim.mode.limit();
  if (limit == 0) return;
  Range range = until_own(here(cls, claim.path)).last(limit);
  if (limit > max_watched_members) {
    range.skip = limit - 1;
    range.limit = 1;
  }
  limits_.push_back({.range = ranges_.size(), .limit = limit});
  ranges_.push_back(std::move(range));
}

void Look::add_gaps(std::span<const std::string> known) {
  std::string from{group_tag};
  for (const std::string& cls : known) {
    Range gap;
    gap.from = from;
    gap.to = cls;
    gap.limit = 1;
    if (gap.from < gap.to) ranges_.push_back(std::move(gap));
    // Behind a key without a class there may be a class that begins with it.
    from = class_in(cls).empty() ? cls + '\0' : prefix_end(cls);
  }
  Range rest;
  rest.from = std::move(from);
  rest.to = prefix_end(std::string{group_tag});
  rest.limit = 1;
  ranges_.push_back(std::move(rest));
}

void Look::raise(Floors& floors, Revision number) const {
  for (const Line& line : lines_) {
    floors.raise(ranges_[line.range].from.substr(0, line.prefix), number);
  }
}

Look::Found Look::found(std::span<const std::vector<Entry>> reads) const {
  Found result;
  for (std::size_t i = conflicts_ + limits_.size(); i < ranges_.size(); ++i) {
    for (const Entry& entry : reads[i]) {
      const std::string_view cls = class_in(entry.key);
      result.unknown.emplace_back(cls.empty() ? std::string_view{entry.key} : cls);
    }
  }
  if (!result.unknown.empty()) return result;
  // Of several the latest: when that goes, most likely all before it have.
  const Entry* latest = nullptr;
  for (std::size_t i = 0; i < conflicts_; ++i) {
    for (const Entry& entry : reads[i]) {
      if (latest == nullptr || number_in(entry.key) > number_in(latest->key)) latest = &entry;
    }
  }
  if (latest != nullptr) {
    result.blockers.push_back(*latest);
    return result;
  }
  for (const Limit& limit : limits_) {
    const std::vector<Entry>& members = reads[limit.range];
    if (limit.limit > max_watched_members) {
      if (!members.empty()) result.crowds.push_back(ranges_[limit.range].from);
    } else if (members.size() == limit.limit) {
      result.by_limit = true;
      result.blockers = members;
      break;  // One full limit is enough to wait for.
    }
  }
  return result;
}

}  // namespace tenure::stored
