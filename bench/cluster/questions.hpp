// questions.hpp: what cluster_bench asks of stores on a network, one source file each. README.md
// has the bars. The server has one core and the clients share another: the client's computation
// must not be hidden by a waiting server, nor the other way round.
#pragma once

#include <cstddef>
#include <functional>
#include <string>

#include "bench/program.hpp"
#include "bench/ratio.hpp"
#include "bench/stored/questions.hpp"
#include "tenure/space.hpp"

namespace tenure::bench::cluster {

inline constexpr std::size_t client_core = 0;
inline constexpr std::size_t server_core = 1;
// A busy machine, or a disk that stalls for a while, must not cost a session.
inline const SessionOptions patient{.label = {}, .ttl = std::chrono::minutes{1}};

// The part of a line that says where its clients ran.
[[nodiscard]] inline std::string on_cores(std::size_t of_clients) {
  return of_clients == server_core ? ", one core" : "";
}

// A space of that name on the question's server, with its own connections.
using Opener = std::function<Space(const std::string& name)>;

// Calls `start` on the servers' core. Null, with a note, if there is only one core or `start`
// returns null because the program is not installed.
template <class Start>
[[nodiscard]] auto start_on_server_core(Report& report, const std::string& program,
                                        const Start& start) -> decltype(start()) {
  static const std::size_t before_pinning = cores();
  if (before_pinning < 2) {
    report.note("not measured: client and server need a core each");
    return nullptr;
  }
  pin_to_core(server_core);
  auto server = start();
  pin_to_core(client_core);
  if (server == nullptr) report.note("not measured: " + program + " is not installed");
  return server;
}

void ask_etcd_uncontended(Report& report);
void ask_etcd_clients(Report& report);
void ask_etcd_handoff(Report& report);
void ask_etcd_waiters(Report& report);
void ask_etcd_groups(Report& report);
void ask_etcd_durable(Report& report);

void ask_postgres_uncontended(Report& report);
void ask_postgres_clients(Report& report);
void ask_postgres_handoff(Report& report);
void ask_postgres_waiters(Report& report);
void ask_postgres_listeners(Report& report);
void ask_postgres_groups(Report& report);
void ask_postgres_durable(Report& report);

}  // namespace tenure::bench::cluster
