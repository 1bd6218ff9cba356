// A claim as a mutex: the standard's locks work on it, shared and timed ones too.
#include <chrono>
#include <iostream>
#include <mutex>
#include <shared_mutex>
#include <thread>

#include "examples/watch.hpp"
#include "tenure/tenure.hpp"

namespace {
const tenure::Name book{"book"};
const tenure::Name index_of{"index"};
}  // namespace

int main() {
  using namespace std::chrono_literals;
  const tenure::Space space = tenure::open("local:");
  tenure::Mutex first = space.as("first").mutex(book(3));
  tenure::Mutex second = space.as("second").mutex(book(3));
  tenure::Mutex catalogue = space.as("first").mutex(index_of);

  {
    const std::scoped_lock both{first, catalogue};
    example::print("std::scoped_lock over two of them:", space);
    const std::unique_lock other{second, std::try_to_lock};
    std::cout << "second, std::try_to_lock: " << (other ? "locked" : "not locked") << '\n';
    const std::unique_lock patient{second, 1ms};
    std::cout << "second, for a millisecond: " << (patient ? "locked" : "not locked") << '\n';
  }
  {
    const std::shared_lock reading{first};
    const std::shared_lock reading_too{second};
    example::print("Two std::shared_lock:", space);
  }
  std::unique_lock writing{first};
  const std::jthread next{[&] { const std::unique_lock lock{second}; }};
  example::until_waiting(space, 1);
  example::print("A std::unique_lock, and one that waits for it:", space);
  writing.unlock();
}
