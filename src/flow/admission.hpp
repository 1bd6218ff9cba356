// admission.hpp: the places of a concurrency limit. A place is a key of the store; a start takes a
// free one, guarded on its absence, and the workflow's end removes it.
//
// This is what the engine remembers of the places, so that a start need not read them all. It may
// be wrong: the guard then refuses the start, and the place is marked as taken.
//
// Thread safety: all of it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "base/annotations.hpp"
#include "base/mutex.hpp"

namespace tenure::flow {

class Admission {
 public:
  // Whether anything is known of them; if not, read them and refresh() first.
  [[nodiscard]] bool knows(const std::string& places);
  // The lowest place that nobody is known to have, reserved for the caller; nothing: all are taken.
  [[nodiscard]] std::optional<std::uint32_t> reserve(const std::string& places, std::uint32_t max);
  // Somebody else has it: the caller's reservation was in vain.
  void taken(const std::string& places, std::uint32_t number);
  // It is free again.
  void free(const std::string& places, std::uint32_t number);
  // What the store has, all of it, read when every place seemed taken. Reservations stay.
  void refresh(const std::string& places, const std::set<std::uint32_t>& taken);
  void committed(const std::string& places, std::uint32_t number);

 private:
  struct Places {
    // Free places below `end`; all from `end` on are free.
    std::set<std::uint32_t> free;
    std::uint32_t end = 0;
    std::set<std::uint32_t> reserved;
  };
  base::Mutex mutex_;
  std::map<std::string, Places> all_ TENURE_GUARDED_BY(mutex_);
};

}  // namespace tenure::flow
