// figures.hpp: what a job costs a server, and when clients ask again: all that the simulation
// knows of etcd and PostgreSQL, with its source.
//
// Sources
//   [P] docs/performance.md, pairs of lock and release per second of 8 and of 64 processes with a
//       key each: the server on one core, so half a pair is the service time of an apply.
//   [M] measured for this: CPU time of the server (/proc/PID/task/*/schedstat, children included),
//       bound to one core: 10,900 renewals (etcd) and 12,300 (PostgreSQL), 500 sessions opened, 30
//       calls of `etcdctl get`, 600 connections of `pgbench -C`. Other work ran on the machine.
//   [S] the source of the product, which the comment names.
//   [A] an assumption.
#pragma once

#include <chrono>
#include <string_view>

#include "bench/scale/server.hpp"

namespace tenure::bench::scale {

using namespace std::chrono_literals;

// Times are in seconds, except for pauses, which base::Backoff takes.
struct Figures {
  std::string_view name;
  Service apply;               // [P] A transaction that commits: half of a lock and release.
  double renewal = 0;          // [M] Of a session.
  double open_session = 0;     // [M]
  double connect = 0;          // [M] One connection.
  double watch = 0;            // [A] A request that must wait also says what it waits for,
  double look = 0;             // [A] and looks again when it is notified.
  double signal = 0;           // Of a release that hands over: per process that listens.
  bool one_connection = true;  // [S] For requests and renewals; otherwise one each.
  double earliest = 0;         // [S] When a lease is renewed, as shares of it.
  double latest = 0;
  double renew_retry = 0;                   // [S] After a failed renewal.
  double renew_limit = 0;                   // [S] Share of the lease that a renewal may take,
  double longest_renewal = 0;               // and how long at most.
  std::chrono::nanoseconds first_pause{0};  // [S] Of a request's backoff.
  std::chrono::nanoseconds longest_pause{0};
  double call_limit = 0;  // [S] After so long a request is asked again, over another connection.
  double connect_limit = 0;
};

inline constexpr Figures etcd_figures{
    .name = "etcd",
    .apply = {.few = 1 / (2 * 1'850.0), .many = 1 / (2 * 830.0)},
    .renewal = 390e-6,
    .open_session = 520e-6,
    .connect = 890e-6,
    .watch = 195e-6,     // [A] A message: half of a renewal, which is a stream and a read.
    .look = 2 * 195e-6,  // [P] "a wait costs two requests and a watch more"; [A] as a message each.
    .signal = 0,         // Part of `look`: etcd notifies one process.
    .one_connection = true,
    .earliest = 0.175,  // src/store/etcd/etcd_store.cpp
    .latest = 0.225,
    .renew_retry = 0.1,
    .renew_limit = (2.0 / 3 - 0.2) / 3,  // A third of the time that is left.
    .longest_renewal = 2,
    .first_pause = 5ms,  // src/store/etcd/channel.cpp
    .longest_pause = 200ms,
    .call_limit = 2.5,  // Half of `timeout`.
    .connect_limit = 5,
};

inline constexpr Figures postgres_figures{
    .name = "postgres",
    .apply = {.few = 1 / (2 * 3'280.0), .many = 1 / (2 * 1'910.0)},
    .renewal = 74e-6,
    .open_session = 173e-6,
    .connect = 3.0e-3,
    .watch = 74e-6,    // [A] A statement that writes no lock, as a renewal.
    .look = 74e-6,     // [A] The same.
    .signal = 1.1e-6,  // [P] A hand-off of 0.66 ms takes 1.17 times as long beside 100 processes.
    .one_connection = false,
    .earliest = 0.22,  // src/store/postgres/sessions.cpp
    .latest = 0.33,
    .renew_retry = 0.25,
    .renew_limit = 0.25,
    .longest_renewal = 86'400,
    .first_pause = 20ms,  // src/store/postgres/executor.cpp
    .longest_pause = 500ms,
    .call_limit = 10,    // Target::silence
    .connect_limit = 5,  // src/store/postgres/url.cpp
};

// [S] How long a PostgreSQL client keeps the connection that listens: watch_service.cpp.
inline constexpr double listens_after_wait = 5;
// [S] A lease that was not renewed for so much of it is lost: lease_renewer.hpp.
inline constexpr double trusted_share = 2.0 / 3;

}  // namespace tenure::bench::scale
