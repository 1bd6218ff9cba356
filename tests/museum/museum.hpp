// museum.hpp: what the cases share: waiting for a state, coroutines, and an executor that counts
// its functions.
#pragma once

#include <algorithm>
#include <cstddef>
#include <deque>
#include <source_location>
#include <string>
#include <utility>
#include <vector>

#include "base/detached.hpp"
#include "tenure/tenure.hpp"
#include "tests/kit/patience.hpp"

namespace tenure::museum {

// For a state that another thread is about to reach.
using kit::until;

inline std::size_t waiting(const Space& space, const Path& path = {}) {
  return static_cast<std::size_t>(std::ranges::count(
      space.inspect(path), false, [](const TicketInfo& info) { return info.granted; }));
}

inline void until_waiting(const Space& space, std::size_t count, const Path& path = {},
                          std::source_location where = std::source_location::current()) {
  until([&] { return waiting(space, path) == count; }, where);
}

// Keeps functions until the test runs them, so that "granted" and "running" can be distinguished.
class Due {
 public:
  struct Executor {
    Due* due;
    void execute(ResumeHandle resume) const { due->queue_.push_back(resume); }
  };
  [[nodiscard]] auto here() { return resume_on(Executor{this}); }
  [[nodiscard]] std::size_t size() const { return queue_.size(); }
  void run_one() {
    const ResumeHandle next = queue_.front();
    queue_.pop_front();
    next();
  }

 private:
  std::deque<ResumeHandle> queue_;
};

// Waits for the claim, and adds the hold and its index to lists of the test.
struct Arrivals {
  Due due;
  std::vector<std::size_t> order;
  std::vector<Hold> holds;
};
inline base::Detached arrive(Locker locker, Claim claim, std::size_t number, Arrivals* arrivals) {
  Hold hold = co_await locker.async_lock(claim, arrivals->due.here());
  arrivals->order.push_back(number);
  arrivals->holds.push_back(std::move(hold));
}

}  // namespace tenure::museum
