// A nightly run at 02:30 in Berlin, by a schedule. On the night when the clocks are set forward
// there is no 02:30: the run starts at the change. An engine that was down catches up.
#include <chrono>
#include <iostream>
#include <map>
#include <string>

#include "tenure/flow_test.hpp"

namespace {

using namespace std::chrono_literals;
using std::chrono::days;

int reconcile() { return 100; }

tenure::Flow<int> nightly(tenure::Context& ctx) {
  const int rows = co_await ctx.run("reconcile", reconcile);
  co_return rows;
}

void show_next(tenure::test::Engine& engine, std::size_t count) {
  const tenure::ScheduleInfo info = engine.engine().schedule_info("nightly");
  for (const tenure::Instant time : info.next(engine.now(), count)) {
    const auto seconds = std::chrono::floor<std::chrono::seconds>(time);
    const std::chrono::year_month_day date{std::chrono::floor<days>(seconds)};
    const std::chrono::hh_mm_ss clock{seconds - std::chrono::floor<days>(seconds)};
    std::cout << static_cast<unsigned>(date.month()) << '-' << static_cast<unsigned>(date.day())
              << ' ' << clock.hours().count() << 'h' << clock.minutes().count() << " UTC\n";
  }
}

}  // namespace

int main() {
  tenure::test::Engine engine;
  engine.define("nightly", nightly);
  const auto first = std::chrono::sys_days{std::chrono::year{2030} / 3 / 29} + 12h;
  engine.advance(first - engine.now());

  const tenure::ScheduleOptions options{
      .id = "nightly", .cron = "30 2 * * *", .zone = "Europe/Berlin", .catch_up = days{1}};
  engine.engine().schedule(options, "nightly");
  engine.settle();
  show_next(engine, 3);

  engine.advance(24h);
  engine.crash();
  engine.store().advance(15h);  // Nobody is there when the clocks change.
  engine.recover();
  std::map<std::string, std::string> results;
  for (const tenure::FlowInfo& info : engine.list()) results[info.id] = info.result;
  for (const auto& [id, result] : results) std::cout << id << ": " << result << '\n';
}
