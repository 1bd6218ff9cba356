#include "bench/scale/server.hpp"

#include <algorithm>
#include <cmath>

namespace tenure::bench::scale {
namespace {

constexpr double log_few = 3;   // log2 of 8 jobs,
constexpr double log_many = 6;  // and of 64.

}  // namespace

double Service::with(std::size_t jobs) const noexcept {
  if (few == many) return few;
  const double log = std::log2(static_cast<double>(std::max<std::size_t>(jobs, 1)));
  const double share = std::clamp((log - log_few) / (log_many - log_few), 0.0, 1.0);
  return few + ((many - few) * share);
}

double Server::arrive(double now, const Service& service) {
  while (!ends_.empty() && ends_.front() <= now) ends_.pop_front();
  const double begin = ends_.empty() ? now : ends_.back();
  const double time = service.with(ends_.size() + 1);
  ends_.push_back(begin + time);
  work_ += time;
  return begin + time;
}

double Server::backlog(double now) const noexcept {
  return ends_.empty() ? 0 : std::max(ends_.back() - now, 0.0);
}

}  // namespace tenure::bench::scale
