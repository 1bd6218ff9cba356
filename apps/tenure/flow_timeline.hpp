// flow_timeline.hpp: the entries of a workflow's log, as lines of `tenure flow show` and `history`.
//
//     +12.3 ms  ━━━━━●               step done      charge  {"id":7}
//      +1.50 s       ━━━━━━━━━●      timer
//
// The bar shows from when to when, out of the time that the workflow has taken so far: from the
// entry before in the same branch. It is for terminals that are wide enough.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

#include "tenure/flow.hpp"
#include "terminal.hpp"

namespace tenure::cli {

class Timeline {
 public:
  // Lines are cut at `columns`; 0: not cut, and no bars.
  Timeline(const FlowInfo& info, Instant now, const Terminal& terminal, std::size_t columns);
  void print(const HistoryEntry& entry);

 private:
  static constexpr std::size_t bar_columns = 20;
  static constexpr std::size_t least_columns = 80;  // For bars.

  [[nodiscard]] std::string bar(const HistoryEntry& entry);
  [[nodiscard]] std::size_t place_of(Instant time) const;

  const Instant begin_;
  const Instant end_;
  const Terminal terminal_;
  const std::size_t columns_;
  std::map<std::uint32_t, Instant> last_;  // By scope.
};

}  // namespace tenure::cli
