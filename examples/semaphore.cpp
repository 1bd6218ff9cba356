// At most three calls to a vendor at a time: a semaphore is a group with a limit.
#include <iostream>
#include <string>
#include <thread>
#include <vector>

#include "examples/watch.hpp"
#include "tenure/tenure.hpp"

namespace {
const tenure::Name vendor{"vendor-api"};
}

int main() {
  const tenure::Space space = tenure::open("local:");
  std::vector<tenure::Hold> holds(5);
  std::vector<std::jthread> waiting;
  const auto call = [&](std::size_t i) {
    holds[i] = space.as("call-" + std::to_string(i + 1)).lock(vendor.permits(3));
  };
  for (std::size_t i = 0; i < 3; ++i) call(i);
  for (std::size_t i = 3; i < 5; ++i) {
    waiting.emplace_back(call, i);
    example::until_waiting(space, i - 2);
  }
  example::print("Five calls, three permits:", space);

  holds[1].release();
  waiting[0].join();
  example::print("The second call is done; the fourth was next:", space);

  // The limit is part of the claim. Who disagrees about it is told, instead of being let in.
  try {
    const tenure::Hold fourth = space.lock(vendor.permits(4));
    std::cout << "let in\n";
  } catch (const tenure::LimitMismatch&) {
    std::cout << "A call that thinks there are four permits: refused\n";
  }
  holds[0].release();
  waiting[1].join();
  example::print("And the fifth:", space);

  // A heavy call takes two permits at once. It waits until both are there.
  waiting.emplace_back([&] { holds[0] = space.as("heavy").lock(vendor.permits(3).take(2)); });
  example::until_waiting(space, 1);
  holds[2].release();
  example::print("A heavy call needs two, and one is free:", space);
  holds[3].release();
  waiting[2].join();
  example::print("Two are free:", space);

  // The vendor allows five now. Every ticket counts under the new limit, and so must new calls.
  waiting.emplace_back([&] { holds[1] = space.as("late").lock(vendor.permits(3)); });
  example::until_waiting(space, 1);
  space.set_limit(vendor.permits(5));
  waiting[3].join();
  example::print("Five permits:", space);
}
