// checker.hpp: checks whether a history can have come from a lock service. Conflicts are judged by
// the library's own rule (rule.hpp).
//
//   overlap   two conflicting holds at one moment
//   limit     members of a limited group on a path take more than its limit, or two limits at once
//   token     a token that was granted twice
//   order     of two conflicting tickets, the one with the larger token held first; or a token is
//             smaller than one that was granted before the request was made, even by a dead process
//   promise   a request that never ended; a hold that was lost without max_hold or eviction; a
//             deadlock of an owner that held nothing; an unexplained error; an inconsistent log
//
// Durations are not judged; Figures reports them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tests/stress/history.hpp"

namespace tenure::stress {

struct Finding {
  enum class Kind : std::uint8_t { overlap, limit, token, order, promise };
  Kind kind;
  std::string text;
};
[[nodiscard]] std::string name(Finding::Kind kind);

[[nodiscard]] std::vector<Finding> check(const History& history);

struct Figures {
  std::size_t events = 0;
  std::size_t requests = 0;
  std::size_t grants = 0;
  std::map<std::string, std::size_t> refused;  // By reason.
  std::size_t narrowed = 0;
  std::size_t expired = 0;  // Holds that turned out to be lost when they were released.
  std::size_t evictions = 0;
  std::size_t kills = 0;
  std::size_t killed_holding = 0;  // Holds that a SIGKILL ended.
  std::size_t pauses = 0;
  std::size_t most_at_once = 0;  // Holds at one moment.
  std::int64_t worst_wait = 0;   // Of a granted request.
  // From the grant until the release, or until the process was killed.
  std::int64_t worst_hold = 0;
  // The longest time that a thread spent in one request, however it ended.
  std::int64_t worst_thread = 0;
  // For long waits: from when nothing blocked the request any more to its grant, without the time
  // in which any process was stopped. After a death: the last blocker was killed.
  std::int64_t worst_hand_off = 0;
  std::int64_t worst_after_death = 0;
  std::string slowest;  // The request with that hand-off.
};
[[nodiscard]] Figures figures(const History& history);
[[nodiscard]] std::string text(const Figures& figures);

}  // namespace tenure::stress
