// players.hpp: two processes that pass a lock back and forth; how long each hand-off takes.
//
// The holder releases only when the other process waits; the time is from the release to the grant.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "bench/cluster/questions.hpp"
#include "bench/ratio.hpp"
#include "bench/stored/child.hpp"
#include "bench/stored/locks.hpp"

namespace tenure::bench::cluster {

// A lock of two processes, created in each; and how long a request takes from its announcement
// until it waits for sure.
struct Passed {
  std::function<std::unique_ptr<stored::Lock>()> make;
  std::chrono::microseconds dwell;
};

// Of `book`, in a space of that name.
[[nodiscard]] Passed our_lock(const Opener& open, std::string name);

class Players {
 public:
  Players(std::array<std::size_t, 2> cores, std::vector<Passed> locks);

  // Nanoseconds of each hand-off.
  Samples round(std::size_t which, std::size_t turns);

 private:
  struct Board {
    std::array<stored::Signal, 2> asking;  // The turn that a side is about to wait for.
    stored::Signal grants;
    std::atomic<double> released = 0;
  };

  static stored::Words play(stored::Lock& lock, std::chrono::microseconds dwell, Board& board,
                            std::uint32_t side, std::uint32_t turns);

  const std::vector<Passed> locks_;
  stored::Shared<Board> board_;
  std::vector<stored::Child> children_;
};

}  // namespace tenure::bench::cluster
