// timers.hpp: the next timers of one partition, out of as many as the store has.
//
// Timers are keys of the store, in the order in which they are due. A window holds the first few of
// them: everything before `cursor`. What lies behind is read when the window is empty, so a
// sleeping workflow costs no memory.
//
// Invariants
//   1. Every timer of the store before cursor() that has not been taken is in the window.
//   2. The window never holds more than twice `size` keys.
//
// Thread safety: none.
#pragma once

#include <cstddef>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "flow/keys.hpp"

namespace tenure::flow {

class TimerWindow {
 public:
  // NOLINTNEXTLINE(bugprone-easily-swappable-parameters): as their types say.
  TimerWindow(Partition partition, std::size_t size)
      : size_(size), range_(keys::timers(partition)), cursor_(range_.from) {}

  // What to read next; nothing while the window has keys, or the store has no more. Until fill() is
  // called, keys that are added are kept.
  [[nodiscard]] std::optional<Range> wanted() {
    if (!keys_.empty() || complete_ || filling_) return std::nullopt;
    filling_ = true;
    Range range = range_;
    range.from = cursor_;
    range.limit = static_cast<std::uint32_t>(size_);
    return range;
  }
  // What was read for wanted().
  void fill(const std::vector<Entry>& entries) {
    for (const Entry& entry : entries) keys_.insert(entry.key);
    complete_ = entries.size() < size_;
    if (!entries.empty()) cursor_ = entries.back().key + '\0';
    filling_ = false;
    for (const std::string& key : std::exchange(added_, {})) add(key);
  }
  // It could not be read.
  void fail() { fill({}), complete_ = false; }
  // The store has a new one.
  void add(const std::string& key) {
    if (filling_) added_.push_back(key);
    if (!complete_ && key >= cursor_) return;
    keys_.insert(key);
    if (keys_.size() <= 2 * size_) return;
    const auto half = std::next(keys_.begin(), static_cast<std::ptrdiff_t>(size_));
    cursor_ = *half;
    complete_ = false;
    keys_.erase(half, keys_.end());
  }
  void remove(const std::string& key) { keys_.erase(key); }
  // The first one; nothing when the window is empty.
  [[nodiscard]] std::optional<Instant> next() const {
    if (keys_.empty()) return std::nullopt;
    const std::optional<keys::Timer> first = keys::parse_timer(*keys_.begin());
    return first ? first->due : Instant::min();
  }
  [[nodiscard]] std::string take_first() { return std::move(keys_.extract(keys_.begin()).value()); }
  [[nodiscard]] std::size_t size() const noexcept { return keys_.size(); }

 private:
  std::size_t size_;
  Range range_;
  std::string cursor_;
  bool complete_ = false;
  bool filling_ = false;
  std::vector<std::string> added_;
  std::set<std::string> keys_;
};

}  // namespace tenure::flow
