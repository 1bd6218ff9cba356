// A mutex for each working path, and one for a whole subsystem. The keys are names, unique in the
// program: two modules cannot share a lock by accident.
#include <barrier>
#include <filesystem>
#include <iostream>
#include <string>
#include <thread>
#include <vector>

#include "examples/watch.hpp"
#include "tenure/tenure.hpp"

namespace gitstore {

const tenure::Name operation{"gitstore-operation"};

// One caller at a time for each working path; callers are served in the order they came.
template <class F>
void with_mutex(const tenure::Locker& locker, const std::filesystem::path& working_path,
                F procedure) {
  locker.with(operation(working_path), procedure);
}

}  // namespace gitstore

namespace graph {

const tenure::Name operations{"graph-operations"};

// One caller at a time, whatever it works on.
template <class F>
void with_mutex(const tenure::Locker& locker, F procedure) {
  locker.with(operations, procedure);
}

}  // namespace graph

int main() {
  const tenure::Space space = tenure::open("local:");

  std::string order;
  std::vector<std::jthread> callers;
  gitstore::with_mutex(space.as("first"), "/repos/notes", [&] {
    for (const char* name : {"second", "third", "fourth"}) {
      callers.emplace_back([&space, &order, name] {
        gitstore::with_mutex(space.as(name), "/repos/notes/",
                             [&] { order.append(" ").append(name); });
      });
      example::until_waiting(space, callers.size());
    }
    example::print("One path, four callers:", space);
    order += " first";
  });
  callers.clear();
  std::cout << "They ran in this order:" << order << "\n\n";

  // Neither passes the barrier before the other is in as well.
  std::barrier both_are_in{2};
  const auto meet = [&](const char* name, const char* working_path) {
    gitstore::with_mutex(space.as(name), working_path, [&] { both_are_in.arrive_and_wait(); });
  };
  {
    const std::jthread notes{meet, "notes", "/repos/notes"};
    const std::jthread photos{meet, "photos", "/repos/photos"};
  }
  std::cout << "Two paths: both callers were inside at once.\n\n";

  graph::with_mutex(space.as("migration"), [&] {
    callers.emplace_back([&] { graph::with_mutex(space.as("inspection"), [] {}); });
    example::until_waiting(space, 1);
    example::print("One key for a subsystem:", space);
  });
  callers.clear();
  example::print("Afterwards:", space);
}
