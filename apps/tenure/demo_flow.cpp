#include "demo_flow.hpp"

#include <fmt/core.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

#include "demo_process.hpp"
#include "exit_status.hpp"
#include "scratch.hpp"
#include "tenure/flow.hpp"

namespace tenure::cli {
namespace {

using namespace std::chrono_literals;

// A step runs for a while, so that the viewer can see it, and says that it began.
int work(const std::string& name, int milliseconds) {
  const std::string line = name + "\n";
  if (::write(STDOUT_FILENO, line.data(), line.size()) < 0) return exit_failure;
  std::this_thread::sleep_for(std::chrono::milliseconds{milliseconds});
  return exit_ok;
}

int shipping = 0;  // Of this process. The one that is to be killed takes long enough for that.
int ship() { return work("ship", shipping); }

// NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): it outlives the flow.
Flow<std::string> order(Context& ctx) {
  co_await ctx.run("reserve", work, "reserve", 60);
  co_await ctx.run("charge", work, "charge", 60);
  co_await ctx.run("ship", ship);
  co_return "shipped";
}

void print_step(const DemoProcess& process, std::string_view text) {
  fmt::print("  process {:<8} {}\n", process.pid(), text);
  (void)std::fflush(stdout);
}

}  // namespace

void show_flow(const Terminal& terminal) {
  fmt::print("\n{}\n{}\n",
             terminal.paint(Style::bold, "9. A workflow is killed, and goes on in another process"),
             wrap("An order is reserved, charged and shipped: a C++ coroutine whose results are "
                  "stored. Its process is killed while it ships. Another process runs the "
                  "coroutine again, gets the stored results, and does not charge twice.",
                  78, "  "));
  const Scratch scratch;
  const std::string url = "sqlite:" + scratch.path() + "/flow.db";
  DemoProcess first{{"demo-worker", url, "20000"}, scratch.path()};
  while (const std::optional<std::string> step = first.next_line()) {
    print_step(first, *step);
    if (*step != "ship") continue;
    print_step(first, terminal.paint(Style::red, "killed by SIGKILL"));
    first.kill();
    break;
  }
  DemoProcess second{{"demo-worker", url, "60"}, scratch.path()};
  while (const std::optional<std::string> step = second.next_line()) {
    print_step(second,
               *step == "shipped" ? terminal.paint(Style::green, "the order is shipped") : *step);
  }
}

int work_on_demo_flow(const DemoWorkerOptions& options) {
  shipping = options.shipping;
  Engine engine{store(options.space)};
  engine.define("order", order);
  engine.recover_all();
  const StartOptions start{.id = "order-7", .idempotency_key = "order-7"};
  const std::string line = engine.start(start, "order").result<std::string>() + "\n";
  return ::write(STDOUT_FILENO, line.data(), line.size()) < 0 ? exit_failure : exit_ok;
}

}  // namespace tenure::cli
