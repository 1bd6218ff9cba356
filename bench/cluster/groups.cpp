// A lock beside groups that others hold on other paths, on a server.
#include "bench/stored/groups.hpp"

#include <chrono>

#include "bench/cluster/etcd.hpp"
#include "bench/cluster/postgres.hpp"
#include "bench/cluster/questions.hpp"

namespace tenure::bench::cluster {

void ask_etcd_groups(Report& report) {
  const auto server = start_etcd(report);
  if (server == nullptr) return;
  stored::compare_groups(report, etcd_opener(*server), std::chrono::milliseconds{5}, 100);
}

void ask_postgres_groups(Report& report) {
  const auto server = start_postgres(report);
  if (server == nullptr) return;
  stored::compare_groups(report, postgres_opener(*server), std::chrono::milliseconds{20}, 50);
}

}  // namespace tenure::bench::cluster
