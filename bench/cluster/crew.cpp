#include "bench/cluster/crew.hpp"

#include <algorithm>
#include <map>
#include <thread>
#include <utility>

#include "bench/cluster/questions.hpp"

namespace tenure::bench::cluster {

using stored::now;

Crew::Crew(std::size_t clients, std::vector<Contestant> contestants, std::chrono::nanoseconds time)
    : contestants_(std::move(contestants)), time_(static_cast<double>(time.count())) {
  for (std::size_t i = 0; i < clients; ++i) {
    children_.emplace_back(client_core, [this, i](const stored::Line& line) { work(i, line); });
  }
  for (std::size_t which = 0; which < contestants_.size(); ++which) {
    for (stored::Child& child : children_) child.ask({static_cast<double>(which), 0, 0});
  }
}

void Crew::work(std::size_t client, const stored::Line& line) const {
  std::map<std::size_t, Contestant::Step> steps;
  while (const auto command = line.next()) {
    const auto which = static_cast<std::size_t>(command->at(0));
    const double start = command->at(1);
    const double end = command->at(2);
    if (!steps.contains(which)) steps.emplace(which, contestants_.at(which).make(client));
    const Contestant::Step& step = steps.at(which);
    double done = 0;
    if (end == 0) step();
    std::this_thread::sleep_for(std::chrono::nanoseconds{static_cast<long>(start - now())});
    while (now() < end) {
      step();
      if (now() < end) ++done;
    }
    line.send({done});
  }
}

double Crew::round(std::size_t contestant) {
  const double start = now() + 10e6;  // All have received the command by then.
  for (stored::Child& child : children_) {
    child.tell({static_cast<double>(contestant), start, start + time_});
  }
  double sum = 0;
  for (stored::Child& child : children_) sum += child.hear().at(0);
  return time_ / std::max(sum, 1.0);
}

}  // namespace tenure::bench::cluster
