// checker.hpp: whether a history can have come from a lock service. Conflict is the library's own
// rule (rule.hpp), not a second opinion.
//
//   overlap   two holds that conflict, at one moment
//   limit     more members of a limited group on a path than it has places, or two limits at once
//   token     a token that was granted twice
//   order     of two that conflict the later token held first; or a token is smaller than one that
//             was granted before the request was made, be it by a process that is dead by now
//   promise   a request that never ended; a hold that was lost without max_hold or eviction; a
//             deadlock of somebody who held nothing; an error that nothing explains; a log that
//             makes no sense
//
// Nothing is judged by how long it took: Figures tell.
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
  std::size_t expired = 0;  // Holds that were found lost when they were given back.
  std::size_t evictions = 0;
  std::size_t kills = 0;
  std::size_t killed_holding = 0;  // Holds that a SIGKILL ended.
  std::size_t pauses = 0;
  std::size_t most_at_once = 0;   // Holds at one moment.
  std::int64_t worst_wait = 0;    // Of a request that was granted.
  std::int64_t worst_hold = 0;    // From its grant until it was given back, or its process killed.
  std::int64_t worst_thread = 0;  // The longest that a thread was in one request, however it ended.
  // Of long waits: from when nothing was in its way any more to the grant, less the time in which
  // any process was stopped. After a death: the last in its way was killed.
  std::int64_t worst_hand_off = 0;
  std::int64_t worst_after_death = 0;
  std::string slowest;  // Whose hand-off that was.
};
[[nodiscard]] Figures figures(const History& history);
[[nodiscard]] std::string text(const Figures& figures);

}  // namespace tenure::stress
