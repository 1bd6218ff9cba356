// flow_history.hpp: the stored history of one workflow, to be replayed elsewhere.
//
//   std::ofstream{"order-7.json"} << engine.export_history("order-7").json();    // In production.
//
//   auto report = engine.replay(FlowHistory::parse(text));                       // In your own CI.
//   EXPECT_TRUE(report.fits()) << report.difference();
//
// A replay runs the workflow's code against the history. It runs no step and touches no store.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tenure/detail/flow_machine.hpp"
#include "tenure/flow_error.hpp"

namespace tenure {

struct FlowHistory {
  std::string id;
  std::string type;
  FlowState state = FlowState::running;
  std::uint64_t seed = 0;
  Instant created;
  Instant starts;
  std::uint32_t run = 0;
  detail::OpKey last;
  std::uint32_t carried = 0;
  std::string root;
  std::string input;
  std::string result;     // Of one that has ended: the value, or an ErrorInfo's text.
  bool has_begun = true;  // False: none of its code has run in a turn that was stored.
  std::vector<detail::LogEntry> entries;
  friend bool operator==(const FlowHistory&, const FlowHistory&) = default;

  // One JSON document.
  [[nodiscard]] std::string json() const;
  // Throws BadRequest where that is not what json() gives.
  [[nodiscard]] static FlowHistory parse(std::string_view json);
};

class ReplayReport {
 public:
  ReplayReport() = default;
  ReplayReport(std::uint32_t order, std::string difference)
      : order_(order), difference_(std::move(difference)) {}
  // Whether the program does what the history has.
  [[nodiscard]] bool fits() const noexcept { return difference_.empty(); }
  // The entry of the first difference; the number of entries: it is after the last one.
  [[nodiscard]] std::uint32_t order() const noexcept { return order_; }
  // Both sides, for people; empty: it fits.
  [[nodiscard]] const std::string& difference() const noexcept { return difference_; }

 private:
  std::uint32_t order_ = 0;
  std::string difference_;
};

}  // namespace tenure
