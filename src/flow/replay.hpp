// replay.hpp: a workflow's code against its stored history, without an engine's work: no step runs,
// nothing is written.
//
// Thread safety: none of an object.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "tenure/flow.hpp"
#include "tenure/flow_history.hpp"

namespace tenure::flow {

class Replay {
 public:
  // Runs the code as far as the history goes. Throws nothing of the history's: see report().
  Replay(const FlowHistory& history, const detail::Definition& definition,
         const detail::ErrorTypes& errors);
  [[nodiscard]] const ReplayReport& report() const noexcept { return report_; }
  // The code where the history leaves it. Only where it fits.
  [[nodiscard]] detail::Machine& machine() noexcept { return *machine_; }

 private:
  void run(const FlowHistory& history, const detail::Definition& definition);
  [[nodiscard]] std::string compare_end(const FlowHistory& history) const;

  std::unique_ptr<detail::Machine> machine_;
  std::uint32_t order_ = 0;
  ReplayReport report_;
};

}  // namespace tenure::flow
