// Row W12 of docs/museum.md: a release could not replay the histories of the one before. Each file
// in histories/ has the workflows that a release left: a record, then the entries of its log, one
// per line in hexadecimal digits. They are replayed for ever; the programs here must not change.
//
// A release that changes the format, or what the engine records, adds a file:
//   TENURE_FLOW_HISTORY=src/flow/histories/2.txt unit_test --gtest_filter=FlowHistories.*
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "flow/entry.hpp"
#include "flow/keys.hpp"
#include "tenure/flow_test.hpp"
#include "tests/kit/source_file.hpp"

namespace tenure {
namespace {

using namespace std::chrono_literals;

int twice(int value) { return 2 * value; }
int second_time(StepContext& step) {
  if (step.attempt() < 2) throw std::runtime_error("not yet");
  return 7;
}

// Uses everything that leaves an entry.
Flow<std::string> everything(Context& ctx, std::string text, int number) {
  text += std::to_string(co_await ctx.run("twice", twice, number));
  const Step retried{.name = "retried", .retry = {.max_attempts = 3, .base = 1s}};
  text += std::to_string(co_await ctx.run(retried, second_time));
  const Step once{.name = "once", .at_most_once = true};
  text += std::to_string(co_await ctx.run(once, twice, 1));
  co_await ctx.sleep(1h);
  const std::string word = co_await ctx.wait_signal<std::string>("word");
  const auto nothing = co_await ctx.wait_signal<int>("nothing", 1min);
  const auto [left, right] =
      co_await ctx.all([](Context& c) -> Flow<int> { co_return co_await c.run("left", twice, 3); },
                       [](Context& c) -> Flow<int> {
                         co_await c.sleep(1min);
                         co_return co_await c.run("right", twice, 4);
                       });
  const auto won = co_await ctx.race(
      [](Context& c) -> Flow<int> {
        co_await c.sleep(1h);
        co_return 1;
      },
      [](Context& c) -> Flow<int> { co_return co_await c.run("quick", twice, 5); });
  const FlowHold hold = co_await ctx.lock(Path::of("account", "7"));
  const int slot = co_await ctx.state.execution<int>("count").increment();
  co_await ctx.release(hold);
  text += word + (nothing ? "!" : ".") + std::to_string(left + right) + std::to_string(won.index());
  co_return text + std::to_string(slot) + std::to_string(ctx.random() % 1000);
}

Flow<std::string> cancelled(Context& ctx, std::string text, int /*number*/) {
  try {
    co_await ctx.sleep(10h);
  } catch (const Cancelled&) {
    text += "c";
  }
  const auto clean_up = [](Context& c) -> Flow<int> {
    co_return co_await c.run("clean", twice, 1);
  };
  text += std::to_string(co_await ctx.shielded(clean_up));
  co_return text;
}

using Program = Flow<std::string> (*)(Context&, std::string, int);
Program program_of(const std::string& type) {
  return type == "everything" ? everything : cancelled;
}

void write_history(const std::string& file) {
  test::Engine engine{{.partitions = 1}};
  engine.define("everything", everything);
  engine.define("cancelled", cancelled);
  engine.start({.id = "e"}, "everything", "x", 21);
  engine.start({.id = "c"}, "cancelled", "y", 1);
  engine.cancel("c");
  engine.signal("e", "word", std::string{"hello"});
  engine.advance(24h);
  std::ofstream out{file};
  for (const char* const id : {"e", "c"}) {
    ASSERT_EQ(engine.list().size(), 2U);
    Txn txn;
    txn.reads.push_back(Range::key(flow::keys::record(0, id)));
    txn.reads.push_back(flow::keys::log_from(flow::keys::log_prefix(0, id), 0));
    const Outcome outcome = engine.store().apply(txn);
    ASSERT_EQ(flow::decode_record(outcome.reads[0].at(0).value).value().state,
              FlowState::completed);
    out << "record " << detail::to_hex(outcome.reads[0][0].value) << "\n";
    for (const Entry& entry : outcome.reads[1]) out << detail::to_hex(entry.value) << "\n";
  }
}

struct History {
  flow::Record record;
  std::vector<detail::LogEntry> log;
};

std::vector<History> read_history(const std::filesystem::path& file) {
  std::vector<History> all;
  std::ifstream in{file};
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("record ")) {
      all.push_back({flow::decode_record(detail::from_hex(line.substr(7))).value(), {}});
    } else {
      all.back().log.push_back(flow::decode_entry(detail::from_hex(line)).value());
    }
  }
  return all;
}

TEST(FlowHistories, W12_OfEachReleaseAreReplayed) {
  const char* const file = std::getenv("TENURE_FLOW_HISTORY");  // NOLINT(concurrency-mt-unsafe)
  if (file != nullptr) write_history(file);
  std::size_t found = 0;
  const auto directory = kit::directory_of(__FILE__) / "histories";
  for (const auto& release : std::filesystem::directory_iterator{directory}) {
    for (const History& one : read_history(release.path())) {
      SCOPED_TRACE(release.path().filename().string() + ": " + one.record.type);
      const detail::ErrorTypes errors;
      detail::Machine machine{{.id = one.record.type == "everything" ? "e" : "c",
                               .type = one.record.type,
                               .seed = one.record.seed,
                               .started = one.record.created},
                              errors};
      machine.begin(std::make_unique<detail::RootOf<std::string, std::string, int>>(
          machine, program_of(one.record.type),
          detail::decode_arguments<std::string, int>(one.record.input)));
      for (const detail::LogEntry& entry : one.log) ASSERT_NO_THROW(machine.deliver(entry));
      EXPECT_EQ(machine.finish().value().value, one.record.result);
      ++found;
    }
  }
  EXPECT_GE(found, 2U);
}

}  // namespace
}  // namespace tenure
