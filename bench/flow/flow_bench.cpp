// Durable workflows. README.md has the bars.
#include <unistd.h>

#include <array>

#include "bench/flow/questions.hpp"
#include "bench/program.hpp"
#include "bench/stored/supervise.hpp"

namespace {

using tenure::bench::Report;

// Figures depend on the disk, so each question says which one it used. A question that hangs is
// ended.
template <void (*ask)(Report&)>
void on_disk(Report& report) {
  using namespace tenure::bench::stored;
  ::alarm(static_cast<unsigned>(report.effort().of(900, 100)));
  report.note("files in " + scratch().parent_path().string() + ", " + scratch_kind());
  ask(report);
}

}  // namespace

int main(int argc, char** argv) {
  using namespace tenure::bench;
  using namespace tenure::bench::flow;
  static constexpr std::array questions = {
      Question{.name = "flow_steps",
               .text = "1,000 workflows of ten steps that do nothing, each result synced",
               .ask = &on_disk<ask_steps>},
      Question{
          .name = "flow_postgres", .text = "the same in postgres:", .ask = &on_disk<ask_postgres>},
      Question{.name = "flow_replay",
               .text = "the cost of an entry when a workflow is replayed",
               .ask = &on_disk<ask_replay>},
      Question{.name = "flow_long_history",
               .text = "what does a history of a million entries take?",
               .ask = &on_disk<ask_long_history>},
      Question{.name = "flow_sleepers",
               .text = "100,000 workflows that sleep",
               .ask = &on_disk<ask_sleepers>},
      Question{.name = "flow_admission",
               .text = "starts and ends under a concurrency limit",
               .ask = &on_disk<ask_admission>},
      Question{.name = "flow_handoff",
               .text = "from the release by a workflow to the grant in one of another process",
               .ask = &on_disk<ask_handoff>},
      Question{.name = "flow_idle_schedules",
               .text = "10,000 schedules that are not due",
               .ask = &on_disk<ask_idle_schedules>},
      Question{.name = "flow_firing",
               .text = "a firing of a schedule beside a start",
               .ask = &on_disk<ask_firing>},
      Question{.name = "flow_queue",
               .text = "100,000 starts that wait for one place",
               .ask = &on_disk<ask_queue>},
      Question{.name = "flow_fan_out",
               .text = "one workflow with 10,000 parallel steps",
               .ask = &on_disk<ask_fan_out>},
      Question{.name = "flow_signals",
               .text = "10,000 signals of 50 senders to one workflow",
               .ask = &on_disk<ask_signals>},
  };
  return stored::supervised([&] { return run_program(argc, argv, questions); });
}
