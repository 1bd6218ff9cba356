// From shared to exclusive without letting go: what was read is still true when it is written. Of
// two readers who try it at once, the second is told.
#include <iostream>
#include <thread>

#include "examples/watch.hpp"
#include "tenure/tenure.hpp"

namespace {
const tenure::Name stock{"stock"};
}  // namespace

int main() {
  const tenure::Space space = tenure::open("local:");
  tenure::Hold clerk = space.as("clerk").lock(stock.shared());
  tenure::Hold robot = space.as("robot").lock(stock.shared());
  example::print("1. Two read the stock:", space);

  std::jthread selling{[&] { clerk.upgrade(stock); }};
  example::until_waiting(space, 1);
  example::print("2. The clerk wants to write what follows from it, and waits for the robot:",
                 space);

  try {
    robot.upgrade(stock);
  } catch (const tenure::Deadlock&) {
    std::cout << "3. So does the robot: each would wait for the other, so it gets an error\n";
  }
  robot.release();
  selling.join();
  example::print("4. The robot lets go, and will read again; the clerk writes:", space);
}
