// written_keys.hpp: the keys that a write transaction has put, less those that it removed since.
//
// A batch of hundreds of transactions writes many keys, and mostly none of them asks: a key is
// appended to a buffer, and sorted into the set when somebody asks.
//
// Thread safety: one thread at a time.
#pragma once

#include <cstddef>
#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace tenure::sqlite {

class WrittenKeys {
 public:
  using Keys = std::set<std::string, std::less<>>;

  void clear() noexcept {
    bytes_.clear();
    events_.clear();
    sorted_ = 0;
    keys_.clear();
  }
  void put(std::string_view key) { add(key, false); }
  void remove(std::string_view key) { add(key, true); }
  // Valid until the next call.
  [[nodiscard]] const Keys& keys() {
    for (; sorted_ < events_.size(); ++sorted_) {
      const Event& event = events_[sorted_];
      const std::string_view key = std::string_view{bytes_}.substr(event.at, event.size);
      if (!event.removed) {
        keys_.emplace(key);
      } else if (const auto at = keys_.find(key); at != keys_.end()) {
        keys_.erase(at);
      }
    }
    return keys_;
  }

 private:
  struct Event {
    std::size_t at = 0;  // In bytes_.
    std::size_t size = 0;
    bool removed = false;
  };
  void add(std::string_view key, bool removed) {
    events_.push_back({.at = bytes_.size(), .size = key.size(), .removed = removed});
    bytes_ += key;
  }

  std::string bytes_;
  std::vector<Event> events_;
  std::size_t sorted_ = 0;  // Events that are in keys_.
  Keys keys_;
};

}  // namespace tenure::sqlite
