// players.hpp: two processes that pass a lock to and fro; how long each hand-off takes.
//
// Whoever has it lets go only when the other one waits; the time is from there until that one has
// it.
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

// A lock of two processes, made in each; and how long one takes, from when it says that it is about
// to ask, until it waits for sure.
struct Passed {
  std::function<std::unique_ptr<stored::Lock>()> make;
  std::chrono::microseconds dwell;
};

// Of `book`, in a space of that name.
[[nodiscard]] Passed our_lock(const Opener& open, std::string name);

class Players {
 public:
  Players(std::size_t core, std::vector<Passed> locks);

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
