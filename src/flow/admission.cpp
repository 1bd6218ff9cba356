#include "flow/admission.hpp"

#include <algorithm>

namespace tenure::flow {

bool Admission::knows(const std::string& places) {
  const base::Mutex::Scoped lock{mutex_};
  return all_.contains(places);
}

std::optional<std::uint32_t> Admission::reserve(const std::string& places, std::uint32_t max) {
  const base::Mutex::Scoped lock{mutex_};
  Places& known = all_[places];
  std::uint32_t number = known.end;
  if (!known.free.empty() && *known.free.begin() < max) {
    number = *known.free.begin();
    known.free.erase(known.free.begin());
  } else if (known.end < max) {
    ++known.end;
  } else {
    return std::nullopt;
  }
  known.reserved.insert(number);
  return number;
}

void Admission::taken(const std::string& places, std::uint32_t number) {
  const base::Mutex::Scoped lock{mutex_};
  all_[places].reserved.erase(number);
}

void Admission::committed(const std::string& places, std::uint32_t number) {
  taken(places, number);
}

void Admission::free(const std::string& places, std::uint32_t number) {
  const base::Mutex::Scoped lock{mutex_};
  const auto at = all_.find(places);
  if (at == all_.end()) return;
  Places& known = at->second;
  known.reserved.erase(number);
  if (number >= known.end) return;
  known.free.insert(number);
  while (known.end > 0 && known.free.erase(known.end - 1) > 0) --known.end;
  if (known.end == 0) all_.erase(at);  // As before the first start.
}

void Admission::refresh(const std::string& places, const std::set<std::uint32_t>& taken) {
  const base::Mutex::Scoped lock{mutex_};
  Places& known = all_[places];
  known.end = taken.empty() ? 0 : *taken.rbegin() + 1;
  if (!known.reserved.empty()) known.end = std::max(known.end, *known.reserved.rbegin() + 1);
  known.free.clear();
  for (std::uint32_t i = 0; i < known.end; ++i) {
    if (!taken.contains(i) && !known.reserved.contains(i)) known.free.insert(i);
  }
}

}  // namespace tenure::flow
