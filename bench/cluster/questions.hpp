// questions.hpp: what cluster_bench asks of stores that are reached over a network, one source file
// each. README.md has the bars. The server has a core to itself, the clients share another: what a
// client computes must not be hidden by a server that waits for it, nor the other way round.
#pragma once

#include <cstddef>

#include "bench/ratio.hpp"
#include "bench/stored/questions.hpp"

namespace tenure::bench::cluster {

inline constexpr std::size_t client_core = 0;
inline constexpr std::size_t server_core = 1;

void ask_etcd_uncontended(Report& report);
void ask_etcd_clients(Report& report);
void ask_etcd_handoff(Report& report);

}  // namespace tenure::bench::cluster
