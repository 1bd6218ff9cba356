#include "demo.hpp"

#include <fmt/core.h>

#include <chrono>
#include <coroutine>
#include <cstddef>
#include <exception>

#include "contenders.hpp"
#include "stage.hpp"
#include "tenure/tenure.hpp"

namespace tenure::cli {
namespace {

const Name book{"book"};
const Name magazine{"magazine"};
const Name api{"api"};

void readers_and_a_writer(const Terminal& terminal) {
  Stage stage{terminal,
              "Readers share; a writer waits its turn, and nobody overtakes it",
              {"ann", "bob", "writer", "late"}};
  stage.asks(0, book(3).shared());
  stage.asks(1, book(3).shared());
  stage.asks(2, book(3));
  stage.asks(3, book(3).shared());
  stage.leaves(0);
  stage.leaves(1);
  stage.leaves(2);
}

void a_tree(const Terminal& terminal) {
  Stage stage{terminal,
              "A claim covers everything below it, and nothing beside it",
              {"librarian", "reader", "second", "visitor"}};
  stage.asks(0, book);
  stage.asks(1, book(3));
  stage.asks(2, book(4));
  stage.asks(3, magazine);
  stage.leaves(0);
}

void permits(const Terminal& terminal) {
  Stage stage{terminal,
              "Two permits: a semaphore, first come, first served",
              {"one", "two", "three", "four"}};
  for (std::size_t i = 0; i < 4; ++i) stage.asks(i, api.permits(2));
  stage.leaves(1);
  stage.leaves(0);
}

void a_deadlock(const Terminal& terminal) {
  Stage stage{terminal,
              "Two owners who would wait for each other: the second is told at once",
              {"ann", "bob"}};
  stage.asks(0, book(1));
  stage.asks(1, book(2));
  stage.asks(0, book(2));
  stage.asks(1, book(1));
  stage.leaves(1);
}

void an_eviction(const Terminal& terminal) {
  Stage stage{terminal,
              "An operator takes a lock away; the next in line has it",
              {"stuck", "next", "after"}};
  stage.asks(0, book(9));
  stage.asks(1, book(9));
  stage.asks(2, book(9));
  stage.is_evicted(0);
  stage.leaves(1);
}

// Starts at once and frees itself at its end.
struct Task {
  struct promise_type {  // NOLINT(readability-identifier-naming): the language's name.
    static Task get_return_object() noexcept { return {}; }
    static std::suspend_never initial_suspend() noexcept { return {}; }
    static std::suspend_never final_suspend() noexcept { return {}; }
    static void return_void() noexcept {}
    static void unhandled_exception() noexcept { std::terminate(); }
  };
};

struct Line {
  std::size_t through = 0;
  bool in_order = true;
};

// NOLINTNEXTLINE(readability-static-accessed-through-instance): what the compiler makes of it.
Task pass(Locker locker, std::size_t number, Line* line) {
  const Hold hold = co_await locker.async_lock(book(3));
  line->in_order = line->in_order && line->through == number;
  ++line->through;
}

void coroutines(const Terminal& terminal) {
  constexpr std::size_t count = 10'000;
  const Space space = open("local:");
  Line line;
  Hold first = space.lock(book(3));
  for (std::size_t i = 0; i < count; ++i) pass(space, i, &line);
  const auto start = std::chrono::steady_clock::now();
  first.release();
  const std::chrono::duration<double, std::micro> time = std::chrono::steady_clock::now() - start;
  fmt::print("\n{}\n", terminal.paint(Style::bold, "Coroutines wait without a thread"));
  fmt::print("  {} of {} in line went through {} in {:.0f} µs: {:.2f} µs a hand-off\n",
             line.through, count, line.in_order ? "in order" : "OUT OF ORDER", time.count(),
             time.count() / static_cast<double>(count));
}

}  // namespace

int demo(const Terminal& terminal) {
  fmt::print("{} holds   {} waits   times: microseconds since the scene began\n",
             terminal.paint(Style::green, "┃"), terminal.paint(Style::yellow, "┊"));
  readers_and_a_writer(terminal);
  a_tree(terminal);
  permits(terminal);
  a_deadlock(terminal);
  an_eviction(terminal);
  coroutines(terminal);
  show_contenders(terminal);
  fmt::print(
      "\nShown: order, trees, permits, deadlock, eviction, death of a process."
      "\nRead on in docs/cli.md and examples/README.md\n");
  return 0;
}

}  // namespace tenure::cli
