#include "store/common/interests.hpp"

#include <algorithm>

namespace tenure::stores {

void Interests::want(const WatchFor& what) {
  for (const Range& range : what.ranges) want(name_of_(range));
  if (!what.session.empty()) want(name_of_session_(what.session));
}

void Interests::unwant(const WatchFor& what, std::int64_t now) {
  for (const Range& range : what.ranges) unwant(name_of_(range), now);
  if (!what.session.empty()) unwant(name_of_session_(what.session), now);
}

void Interests::want(const std::string& name) {
  Interest& one = all_[name];
  if (++one.wants > 1) return;
  ++wanted_;
  if (one.held) {
    unwanted_.erase(name);
  } else {
    missing_.insert(name);
  }
}

void Interests::unwant(const std::string& name, std::int64_t now) {
  const auto at = all_.find(name);
  if (--at->second.wants > 0) return;
  --wanted_;
  if (at->second.held) {
    at->second.unwanted_at = now;
    unwanted_.insert(name);
  } else {
    missing_.erase(name);
    all_.erase(at);
  }
}

std::vector<std::string> Interests::missing() const {
  const auto at = all_.find(everything_);
  const bool there = at != all_.end();
  const bool wanted = there && at->second.wants > 0;
  if (!wanted && wanted_ <= most_) return {missing_.begin(), missing_.end()};
  if (there && at->second.held) return {};
  return {everything_};
}

void Interests::hold(const std::string& name, std::int64_t id, Revision since, bool brief) {
  Interest& one = all_[name];
  one.held = Held{.id = id, .since = since, .brief = brief};
  missing_.erase(name);
  if (one.wants == 0) unwanted_.insert(name);
}

std::vector<std::int64_t> Interests::drop(std::int64_t now, bool asking) {
  std::vector<std::int64_t> ids;
  for (auto at = unwanted_.begin(); at != unwanted_.end();) {
    const auto one = all_.find(*at);
    const Held held = one->second.held.value_or(Held{});
    const std::int64_t age = now - one->second.unwanted_at;
    const bool over = held.brief ? asking || age >= brief_ns : age >= lasting_ns;
    if (!over || (*at == everything_ && needs_everything())) {
      ++at;
      continue;
    }
    ids.push_back(held.id);
    all_.erase(one);
    at = unwanted_.erase(at);
  }
  return ids;
}

std::vector<std::int64_t> Interests::drop_all() {
  std::vector<std::int64_t> ids;
  for (const auto& [name, one] : all_) {
    if (one.held) ids.push_back(one.held->id);
  }
  lose();
  return ids;
}

std::optional<std::int64_t> Interests::drop_at() const {
  std::optional<std::int64_t> first;
  for (const std::string& name : unwanted_) {
    if (name == everything_ && needs_everything()) continue;
    const Interest& one = all_.at(name);
    // NOLINTNEXTLINE(bugprone-unchecked-optional-access): only held ones are in unwanted_.
    const std::int64_t at = one.unwanted_at + (one.held->brief ? brief_ns : lasting_ns);
    first = std::min(first.value_or(at), at);
  }
  return first;
}

void Interests::lose() {
  for (auto at = all_.begin(); at != all_.end();) {
    if (at->second.wants == 0) {
      at = all_.erase(at);
      continue;
    }
    at->second.held.reset();
    missing_.insert(at->first);
    ++at;
  }
  unwanted_.clear();
}

std::optional<Revision> Interests::since(const Range& range) const {
  for (const std::string& name : {name_of_(range), everything_}) {
    const auto at = all_.find(name);
    if (at == all_.end()) continue;
    if (const auto& held = at->second.held) return held->since;
  }
  return std::nullopt;
}

}  // namespace tenure::stores
