// server.hpp: a server of a simulated fleet: one core that serves jobs in the order of arrival.
//
// The service time of an apply grows with the number of jobs that it finds on the server, as
// measured (figures.hpp): `few` with up to 8 of them, `many` from 64 on, in proportion to the
// logarithm in between. Everything else takes as long as it takes.
//
// Invariants
//   1. Jobs end in the order in which they arrive.
//   2. The server is idle only if it has no job.
//
// Thread safety: none. Time is virtual, in seconds.
#pragma once

#include <cstddef>
#include <deque>

namespace tenure::bench::scale {

// Seconds that a job keeps the core busy.
struct Service {
  double few = 0;
  double many = 0;
  [[nodiscard]] static constexpr Service fixed(double time) noexcept { return {time, time}; }
  [[nodiscard]] double with(std::size_t jobs) const noexcept;  // Of which this is one.
};

class Server {
 public:
  // Returns when the job ends. `now` must not be less than in the call before.
  double arrive(double now, const Service& service);
  // How long a job that arrives now waits before it is served.
  [[nodiscard]] double backlog(double now) const noexcept;
  // How long the core has been busy with all jobs so far, those that still wait included.
  [[nodiscard]] double work() const noexcept { return work_; }

 private:
  std::deque<double> ends_;  // Of jobs that had not ended at the last arrival.
  double work_ = 0;
};

}  // namespace tenure::bench::scale
