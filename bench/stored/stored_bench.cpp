#include <unistd.h>

#include <array>

#include "bench/program.hpp"
#include "bench/stored/questions.hpp"
#include "bench/stored/supervise.hpp"

namespace {

using tenure::bench::Report;

// Figures depend on the disk and the file system, so each question says which one it used. A
// question that hangs, because a process waits for a grant that never comes, is ended.
template <void (*ask)(Report&)>
void on_disk(Report& report) {
  using namespace tenure::bench::stored;
  ::alarm(static_cast<unsigned>(report.effort().of(900, 50)));
  report.note("files in " + scratch().parent_path().string() + ", " + scratch_kind());
  ask(report);
}

}  // namespace

int main(int argc, char** argv) {
  using namespace tenure::bench;
  using namespace tenure::bench::stored;
  static constexpr std::array questions = {
      Question{.name = "uncontended",
               .text = "lock + release of a free key in sqlite:, one process; who is faster?",
               .ask = &on_disk<ask_uncontended>},
      Question{.name = "handoff",
               .text = "from a release to the grant in a process that waits, half of them at most",
               .ask = &on_disk<ask_handoff>},
      Question{.name = "waiters",
               .text = "do hand-offs slow down when 1,000 wait instead of 10, in 20 processes?",
               .ask = &on_disk<ask_waiters_on_one_core>},
      Question{.name = "waiters",
               .text = "the same with the processes on two cores",
               .ask = &on_disk<ask_waiters_on_two_cores>},
      Question{.name = "foreign",
               .text = "does a lock cost more when another process holds 50,000 others?",
               .ask = &on_disk<ask_foreign>},
      Question{.name = "groups",
               .text = "does a lock cost more when others hold 10,000 groups instead of one?",
               .ask = &on_disk<ask_groups>},
      Question{.name = "permits",
               .text = "what does it cost to take three permits instead of one?",
               .ask = &on_disk<ask_permits>},
      Question{
          .name = "owners",
          .text = "does a request with an owner that must wait cost more beside 50,000 others?",
          .ask = &on_disk<ask_owners>},
      Question{.name = "sharded",
               .text = "what does a lock through sharded: cost beside the same in its shard?",
               .ask = &on_disk<ask_sharded>},
      Question{.name = "death",
               .text = "from the SIGKILL of a holder to the next grant",
               .ask = &on_disk<ask_death>},
      Question{.name = "writers",
               .text = "16 processes lock keys of their own: how many a second, who waits longest?",
               .ask = &on_disk<ask_writers>},
      Question{.name = "idle",
               .text = "how often does a process run that only waits?",
               .ask = &on_disk<ask_idle>},
      Question{.name = "puts",
               .text = "does a put of its own slow down a process's lock?",
               .ask = &on_disk<ask_puts>},
      Question{.name = "durable",
               .text = "durable single-row transactions: how many a second, 1, 16, 256 at a time?",
               .ask = &on_disk<ask_durable>},
  };
  return supervised([&] { return run_program(argc, argv, questions); });
}
