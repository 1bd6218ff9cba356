#include "demo.hpp"
#include "base/detached.hpp"

#include <fmt/core.h>

#include <cerrno>
#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>

#include "demo_flow.hpp"
#include "demo_pipeline.hpp"
#include "demo_processes.hpp"
#include "demo_scenario.hpp"
#include "tenure/tenure.hpp"

namespace tenure::cli {
namespace {

const Name book{"book"};
const Name magazine{"magazine"};
const Name api{"api"};

void readers_and_a_writer(const Terminal& terminal) {
  DemoScenario scenario{
      terminal,
      "1. Readers share; a writer waits its turn, and nobody overtakes it",
      "Ann and Bob read book/3 together (shared). Cleo writes and needs it alone, so she waits "
      "for both. Dan wants to read too, but asked after Cleo and waits for her: a stream of "
      "readers cannot starve a writer.",
      {"Ann", "Bob", "Cleo", "Dan"}};
  scenario.asks(0, book(3).shared());
  scenario.asks(1, book(3).shared());
  scenario.asks(2, book(3));
  scenario.asks(3, book(3).shared());
  scenario.leaves(0);
  scenario.leaves(1);
  scenario.leaves(2);
}

void a_tree(const Terminal& terminal) {
  DemoScenario scenario{
      terminal,
      "2. A lock covers everything below its path, and nothing beside it",
      "Ann locks book, and with it every book. Bob wants book/3 and Cleo wants book/4: both "
      "paths are below book, so both wait. Dan gets magazine at once, because that path is "
      "beside book.",
      {"Ann", "Bob", "Cleo", "Dan"}};
  scenario.asks(0, book);
  scenario.asks(1, book(3));
  scenario.asks(2, book(4));
  scenario.asks(3, magazine);
  scenario.leaves(0);
}

void permits(const Terminal& terminal) {
  DemoScenario scenario{
      terminal,
      "3. Two permits: a semaphore, first come, first served",
      "At most two may hold api at a time, for example to limit the load on a server. Cleo "
      "and Dan wait; each release admits the next in the queue.",
      {"Ann", "Bob", "Cleo", "Dan"}};
  for (std::size_t i = 0; i < 4; ++i) scenario.asks(i, api.permits(2));
  scenario.leaves(1);
  scenario.leaves(0);
}

void a_deadlock(const Terminal& terminal) {
  DemoScenario scenario{
      terminal,
      "4. A deadlock is an error at once, not a hang",
      "Ann holds book/1 and waits for book/2. Bob holds book/2 and asks for book/1: both "
      "would wait for ever. Tenure refuses Bob's request and prints the cycle. Bob still "
      "holds book/2; when he releases it, Ann gets it.",
      {"Ann", "Bob"}};
  scenario.asks(0, book(1));
  scenario.asks(1, book(2));
  scenario.asks(0, book(2));
  scenario.asks(1, book(1));
  scenario.leaves(1);
}

void an_eviction(const Terminal& terminal) {
  DemoScenario scenario{
      terminal,
      "5. An operator can take a lock away",
      "Ann never releases book/9. An operator evicts her ('tenure evict'): Ann is notified "
      "that her lock is lost, and Bob, the first in the queue, gets it.",
      {"Ann", "Bob", "Cleo"}};
  scenario.asks(0, book(9));
  scenario.asks(1, book(9));
  scenario.asks(2, book(9));
  scenario.is_evicted(0);
  scenario.leaves(1);
}

struct Line {
  std::size_t through = 0;
  bool in_order = true;
};

// NOLINTNEXTLINE(readability-static-accessed-through-instance): what the compiler makes of it.
base::Detached pass(Locker locker, std::size_t number, Line* line) {
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
  fmt::print("\n{}\n{}\n", terminal.paint(Style::bold, "6. Coroutines wait without a thread"),
             wrap("Many coroutines wait for book/3 on a single thread. One release starts a chain: "
                  "each gets the lock, releases it, and so passes it on to the next.",
                  78, "  "));
  fmt::print("  {} of {} got the lock {}, in {:.0f} µs: {:.2f} µs per hand-off\n", line.through,
             count, line.in_order ? "in order" : "OUT OF ORDER", time.count(),
             time.count() / static_cast<double>(count));
}

// With the name under which the program was started, so that the commands can be copied.
void what_next(const Terminal& terminal) {
  constexpr std::size_t longest = 24;  // More would not fit into 80 columns.
  std::string program = printable(program_invocation_name);
  if (width(program) > longest) program = "tenure";
  const std::string holds = program + " run deploy/prod -- sleep 60";
  fmt::print("\n{}\n", terminal.paint(Style::bold, "One rule decides all of this"));
  fmt::print("  A request is granted as soon as no earlier request conflicts with it.\n");
  fmt::print("\n{}\n", terminal.paint(Style::bold, "Try it yourself, in three terminals"));
  const auto line = [left = holds.size()](std::string_view command, std::string_view text) {
    fmt::print("  {:<{}}  {}\n", command, left, text);
  };
  line(holds, "holds the lock for 60 s");
  line(program + " run deploy/prod -- date", "waits, then runs");
  line(program + " ls", "lists holder and waiter");
  fmt::print("\nRead on: docs/cli.md for the command line, examples/README.md for the library\n");
}

}  // namespace

int demo(const Terminal& terminal) {
  fmt::print("{}\n\n",
             wrap("Tenure grants locks on paths such as book/3, in the order of the requests. Nine "
                  "short scenes show how; everything you see happens now, on this machine.",
                  78, ""));
  fmt::print(
      "How to read a scene: one column per thread, one row per event, the time in\n"
      "microseconds (µs) since the scene began.   {} holds a lock   {} waits for one\n",
      terminal.paint(Style::green, "┃"), terminal.paint(Style::yellow, "┊"));
  readers_and_a_writer(terminal);
  a_tree(terminal);
  permits(terminal);
  a_deadlock(terminal);
  an_eviction(terminal);
  coroutines(terminal);
  show_processes(terminal);
  show_pipeline(terminal);
  show_flow(terminal);
  what_next(terminal);
  return 0;
}

}  // namespace tenure::cli
