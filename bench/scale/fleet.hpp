// fleet.hpp: a simulated fleet in its steady state: clients that lock, release and renew their
// sessions in a sharded space over etcd clusters and PostgreSQL servers.
//
// What is aggregated: the requests of all clients of a shard are one Poisson process, because the
// sum of many independent sparse ones is; so are their renewals. The number of clients that use a
// shard is its expectation. Neither changes the answer, and a million clients cost nothing. Shards
// share nothing, so each is simulated alone.
//
// Deterministic: the same fleet, time and seed give the same figures.
// Thread safety: none needed; values and pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "bench/scale/figures.hpp"

namespace tenure::bench::scale {

struct Fleet {
  std::size_t etcd = 0;  // Clusters.
  std::size_t postgres = 0;
  double clients = 1e6;
  double locks = 1e5;       // Per second, each with its release.
  double lease = 10;        // Seconds.
  double contended = 0.05;  // Share of locks that have to wait, and of releases that hand over.
  std::size_t roots = 20'000;
  std::size_t roots_per_client = 1;  // All equally popular.
};

struct Shard {
  const Figures* figures = nullptr;
  double locks = 0;     // Per second.
  double sessions = 0;  // Clients that use it.
  double lease = 0;
  double contended = 0;
  // Connections that listen, on PostgreSQL: processes that wait, or did shortly before.
  [[nodiscard]] double listeners() const noexcept;
  [[nodiscard]] double connections() const noexcept;
};

// Where rendezvous hashing, that of the product, puts the roots. Every kind of shard gets the same
// share on average, whatever it can do. Requires: at least one shard.
[[nodiscard]] std::vector<Shard> spread(const Fleet& fleet);
// The one with the most sessions.
[[nodiscard]] const Shard& hottest(const std::vector<Shard>& shards);

struct Quantiles {
  double p50 = 0;
  double p99 = 0;
};

struct Steady {
  double use = 0;            // Of all servers: work that arrives per second of a core. 1: full.
  double hottest_use = 0;    // Of the one that has the most.
  double renewal_share = 0;  // Of that work: renewals.
  Quantiles lock;            // From the request to its answer, without the network.
  Quantiles handoff;         // From the request to release to the grant of the next.
};

// How long to simulate, greater than zero, and with which random numbers.
struct Run {
  double seconds = 0;
  std::uint64_t seed = 0;
};

[[nodiscard]] Steady simulate(const std::vector<Shard>& shards, Run run);

}  // namespace tenure::bench::scale
