#include <unistd.h>

#include <array>

#include "bench/cluster/questions.hpp"
#include "bench/program.hpp"
#include "bench/stored/supervise.hpp"

namespace {

using tenure::bench::Report;

// A question that hangs, because a process waits for a grant that never comes, is ended.
template <void (*ask)(Report&)>
void in_time(Report& report) {
  ::alarm(static_cast<unsigned>(report.effort().of(900, 50)));
  ask(report);
}

}  // namespace

int main(int argc, char** argv) {
  using namespace tenure::bench;
  using namespace tenure::bench::cluster;
  static constexpr std::array questions = {
      Question{.name = "etcd_uncontended",
               .text = "lock + release of a free key in etcd:, one process; what does it add?",
               .ask = &in_time<ask_etcd_uncontended>},
      Question{.name = "etcd_clients",
               .text = "8 and 64 processes lock and release in etcd: at once; how many a second?",
               .ask = &in_time<ask_etcd_clients>},
      Question{.name = "etcd_handoff",
               .text = "from a release in etcd: to the grant in a process that waits",
               .ask = &in_time<ask_etcd_handoff>},
      Question{.name = "etcd_waiters",
               .text = "do hand-offs in etcd: slow down when 1,000 wait instead of 10?",
               .ask = &in_time<ask_etcd_waiters>},
      Question{.name = "etcd_groups",
               .text = "does a lock in etcd: cost more beside 10,000 groups than beside one?",
               .ask = &in_time<ask_etcd_groups>},
      Question{.name = "postgres_uncontended",
               .text = "lock + release of a free key in postgres:; how near to the least?",
               .ask = &in_time<ask_postgres_uncontended>},
      Question{
          .name = "postgres_clients",
          .text = "8 and 64 processes lock and release in postgres: at once; how many a second?",
          .ask = &in_time<ask_postgres_clients>},
      Question{.name = "postgres_handoff",
               .text = "from a release in postgres: to the grant in a process that waits",
               .ask = &in_time<ask_postgres_handoff>},
      Question{.name = "postgres_waiters",
               .text = "do hand-offs in postgres: slow down when 1,000 wait instead of 10?",
               .ask = &in_time<ask_postgres_waiters>},
      Question{.name = "postgres_listeners",
               .text = "what do processes cost that only wait for something else in postgres:?",
               .ask = &in_time<ask_postgres_listeners>},
      Question{.name = "postgres_groups",
               .text = "does a lock in postgres: cost more beside 10,000 groups than beside one?",
               .ask = &in_time<ask_postgres_groups>},
      Question{.name = "postgres_durable",
               .text = "durable single-row transactions in postgres:, and locks beside puts",
               .ask = &in_time<ask_postgres_durable>},
      Question{.name = "etcd_durable",
               .text = "durable single-row transactions in etcd:, and locks beside puts",
               .ask = &in_time<ask_etcd_durable>},
  };
  return stored::supervised([&] { return run_program(argc, argv, questions); });
}
