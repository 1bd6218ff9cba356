// Waiting without a thread: coroutines of any type can wait for a lock. Here the type is the
// smallest there is; everything runs on one thread, in the order of the tickets.
#include <coroutine>
#include <exception>
#include <iostream>
#include <optional>
#include <stop_token>
#include <string>

#include "examples/watch.hpp"
#include "tenure/tenure.hpp"

namespace {

const tenure::Name book{"book"};

// Starts at once, and frees itself at its end.
struct Task {
  struct promise_type {  // NOLINT(readability-identifier-naming): the language's name.
    Task get_return_object() noexcept { return {}; }
    std::suspend_never initial_suspend() noexcept { return {}; }
    std::suspend_never final_suspend() noexcept { return {}; }
    void return_void() noexcept {}
    void unhandled_exception() noexcept { std::terminate(); }
  };
};

Task edit(tenure::Locker space, std::string name) {
  std::cout << name << " asks\n";
  const tenure::Hold hold = co_await space.async_lock(book(3));
  std::cout << name << " holds\n";
}

Task edit_unless_stopped(tenure::Locker space, std::string name, std::stop_token stop) {
  std::cout << name << " asks\n";
  const std::optional<tenure::Hold> hold = co_await space.async_lock(book(3), stop);
  std::cout << name << (hold ? " holds\n" : " gave up\n");
}

}  // namespace

int main() {
  const tenure::Space space = tenure::open("local:");
  std::stop_source impatience;

  tenure::Hold hold = space.as("main").lock(book(3));
  edit(space.as("ann"), "ann");
  edit_unless_stopped(space.as("bob"), "bob", impatience.get_token());
  edit(space.as("cid"), "cid");
  example::print("Three coroutines wait, and no thread does:", space);

  impatience.request_stop();
  example::print("One of them gave up and left nothing behind:", space);

  std::cout << "main releases\n";
  hold.release();  // Ann is resumed in here, and Cid when Ann's hold goes.
  example::print("All are done:", space);
}
