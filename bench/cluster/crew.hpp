// crew.hpp: processes that do the same thing for a time, all at once: the total number of
// operations.
//
//   Crew crew{8, {{"ours", make_ours}, {"bare", make_bare}}, time};
//   race.add_round([&] { return crew.round(0); });
//
// A contestant's step is created in each process at its first use, because connections and threads
// can't be copied by a fork.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "bench/stored/child.hpp"

namespace tenure::bench::cluster {

struct Contestant {
  using Step = std::function<void()>;
  std::string name;
  std::function<Step(std::size_t client)> make;
};

class Crew {
 public:
  Crew(std::size_t clients, std::vector<Contestant> contestants, std::chrono::nanoseconds time);

  // Nanoseconds per operation of all processes together.
  double round(std::size_t contestant);

 private:
  void work(std::size_t client, const stored::Line& line) const;

  std::vector<Contestant> contestants_;
  double time_;
  std::vector<stored::Child> children_;
};

}  // namespace tenure::bench::cluster
