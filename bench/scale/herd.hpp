// herd.hpp: all clients of one simulated shard after an outage: they reconnect, renew or reopen
// their sessions, and repeat their requests, with the limits and pauses of the product.
//
// A client is two actors, as in the product: a thread that renews its session, and a program that
// locks and releases now and then.
//
//   renews    connects if need be, renews; after a failure it pauses for a fixed time.
//             Not renewed for two thirds of the lease: the session is lost, and the program asks at
//             once for what it had
//   asks      connects if need be, opens a session if the last one was lost, locks, releases; after
//             a failure it pauses with full jitter (base::Backoff)
//
// A server may not know that a client has given up while its job waited: it serves the job all the
// same, and that work is wasted. If clients give up faster than it serves them, it never recovers.
// `Late` has both bounds; the truth lies between them.
//
// Deterministic: the same shard, outage and seed give the same figures.
// Thread safety: none needed; a pure function.
#pragma once

#include <optional>

#include "bench/scale/fleet.hpp"

namespace tenure::bench::scale {

struct Outage {
  double seconds = 0;
  // A partition: nothing is answered, connections survive. Otherwise a restart: connections are
  // refused at once, and those that there were are gone.
  bool silent = false;
};

// What a server does with a job whose client had given up before it could begin with it.
enum class Late : unsigned char { serves, drops };  // At full cost; at none.

struct Recovery {
  // From the end of the outage, until at most 1 % of the clients are without an answer: their last
  // attempt failed. None: not before the simulation ended.
  std::optional<double> seconds;
  double lost = 0;      // Sessions lost, per client. Above 1: new ones were lost again.
  double backlog = 0;   // Most seconds that a job had to wait.
  double given_up = 0;  // Share of all jobs whose clients did not wait for the end.
};

// The run begins with the outage, and ends so long after it. Requires: at least one session.
[[nodiscard]] Recovery recover(const Shard& shard, const Outage& outage, Late late, Run run);

}  // namespace tenure::bench::scale
