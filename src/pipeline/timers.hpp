// timers.hpp: when something is due: retries and timeouts of attempts. A heap; whoever uses it
// brings the time.
//
// Thread safety: none.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "pipeline/plan.hpp"

namespace tenure::pipeline {

struct Due {
  enum class Kind : std::uint8_t { timeout, retry, kill };
  std::chrono::nanoseconds at{};
  Index task = no_task;
  std::uint16_t attempt = 0;
  Kind kind = Kind::timeout;

  friend bool operator>(const Due& a, const Due& b) noexcept {
    return a.at != b.at ? a.at > b.at : a.task > b.task;
  }
};

class Timers {
 public:
  void add(const Due& due) {
    heap_.push_back(due);
    std::ranges::push_heap(heap_, std::greater<>{});
  }
  [[nodiscard]] std::optional<std::chrono::nanoseconds> next() const {
    return heap_.empty() ? std::nullopt : std::optional{heap_.front().at};
  }
  // The next one that is due at `now`, taken out.
  [[nodiscard]] std::optional<Due> take(std::chrono::nanoseconds now) {
    if (heap_.empty() || heap_.front().at > now) return std::nullopt;
    std::ranges::pop_heap(heap_, std::greater<>{});
    const Due due = heap_.back();
    heap_.pop_back();
    return due;
  }
  void clear() noexcept { heap_.clear(); }

 private:
  std::vector<Due> heap_;
};

}  // namespace tenure::pipeline
