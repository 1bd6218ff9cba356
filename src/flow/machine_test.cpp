// Random workflows, replayed from their logs: whole, cut off at each entry, and with each entry
// changed. A cut log replays to where it ends; a changed one gives an error that shows both sides.
#include "tenure/detail/flow_machine.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "flow/entry.hpp"
#include "flow/keys.hpp"
#include "tenure/flow_test.hpp"
#include "tests/kit/message.hpp"

namespace tenure {
namespace {

using namespace std::chrono_literals;
using detail::EntryKind;
using detail::LogEntry;
using detail::Machine;
using Root = detail::RootOf<int, std::uint64_t, int>;

int twice(int value) { return value * 2; }
int refuse(int value) { throw std::runtime_error("no " + std::to_string(value)); }

// A tree of sequences, branches, races and handlers that depends on the seed alone.
Flow<int> random_program(Context& ctx, std::uint64_t seed, int depth) {
  std::minstd_rand random{static_cast<std::uint32_t>((seed * 2654435761U) + 1)};
  int sum = 0;
  const auto parts = static_cast<int>(1 + (random() % 3));
  for (int part = 0; part < parts; ++part) {
    const std::uint64_t below = random();
    const std::string name = "part-" + std::to_string(part);
    switch (random() % (depth > 0 ? 7 : 4)) {
      case 0: sum += co_await ctx.run(name, twice, part + 1); break;
      case 1: co_await ctx.sleep(std::chrono::minutes{1 + (below % 50)}); break;
      case 2: sum += (co_await ctx.wait_signal<int>(name, 5min)).value_or(3); break;
      case 3:
        try {
          const Step step{.name = name, .retry = {.max_attempts = 2, .base = 1s}};
          co_await ctx.run(step, refuse, part);
        } catch (const StepFailed&) {
          sum += 7;
        }
        break;
      case 4: sum += co_await random_program(ctx, below, depth - 1); break;
      case 5: {
        const auto [left, right] = co_await ctx.all(
            [=](Context& c) -> Flow<int> {
              co_return co_await random_program(c, below, depth - 1);
            },
            [=](Context& c) -> Flow<int> {
              co_return co_await random_program(c, below + 1, depth - 1);
            });
        sum += left + right;
        break;
      }
      default: {
        const auto first = co_await ctx.race(
            [=](Context& c) -> Flow<int> {
              co_return co_await random_program(c, below, depth - 1);
            },
            [=](Context& c) -> Flow<int> {
              co_return co_await random_program(c, below + 1, depth - 1);
            });
        sum += static_cast<int>(first.index());
      }
    }
  }
  co_return sum + static_cast<int>(ctx.random() % 100);
}

struct Recorded {
  detail::Identity identity;
  std::uint64_t seed = 0;
  std::vector<LogEntry> log;
  std::string result;
};

// TENURE_FLOW_SEEDS: how many programs.
std::uint64_t programs_or(std::uint64_t otherwise) {
  const char* const text = std::getenv("TENURE_FLOW_SEEDS");  // NOLINT(concurrency-mt-unsafe)
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

class FlowReplay : public ::testing::Test {
 protected:
  // Runs the programs and reads what they left in the store.
  static std::vector<Recorded> record(std::uint64_t programs) {
    test::Engine engine{{.partitions = 1}};
    engine.define("random", random_program);
    for (std::uint64_t seed = 1; seed <= programs; ++seed) {
      engine.start({.id = std::to_string(seed)}, "random", seed, 3);
    }
    engine.advance(std::chrono::days{2});
    std::vector<Recorded> all;
    for (std::uint64_t seed = 1; seed <= programs; ++seed) {
      const std::string id = std::to_string(seed);
      Txn txn;
      txn.reads.push_back(Range::key(flow::keys::record(0, id)));
      txn.reads.push_back(flow::keys::log_from(flow::keys::log_prefix(0, id), 0));
      const Outcome outcome = engine.store().apply(txn);
      const auto found = flow::decode_record(outcome.reads[0].at(0).value);
      EXPECT_EQ(found.value().state, FlowState::completed) << seed;
      Recorded one{
          .identity = {.id = id, .type = "random", .seed = found->seed, .started = found->created},
          .seed = seed,
          .log = {},
          .result = found->result};
      for (const Entry& entry : outcome.reads[1]) {
        one.log.push_back(flow::decode_entry(entry.value).value());
      }
      all.push_back(std::move(one));
    }
    return all;
  }
  // The result; empty: it waits.
  static std::string replay(const Recorded& one, const std::vector<LogEntry>& log) {
    const detail::ErrorTypes errors;
    Machine machine{one.identity, errors};
    machine.begin(std::make_unique<Root>(machine, random_program, std::tuple{one.seed, 3}));
    for (const LogEntry& entry : log) machine.deliver(entry);
    static_cast<void>(machine.waits_for());
    return machine.finish() ? machine.finish()->value : "";
  }
};

TEST_F(FlowReplay, OfALogThatIsCutOffAnywhere) {
  std::size_t entries = 0;
  for (const Recorded& one : record(programs_or(100))) {
    std::vector<LogEntry> log;
    for (const LogEntry& entry : one.log) {
      EXPECT_EQ(replay(one, log), "") << one.seed << " at " << log.size();
      log.push_back(entry);
    }
    EXPECT_EQ(replay(one, log), one.result) << one.seed;
    entries += log.size();
  }
  EXPECT_GT(entries, 200U);
}

TEST_F(FlowReplay, OfALogWithAChangedEntry) {
  for (const Recorded& one : record(programs_or(60))) {
    for (std::size_t i = 0; i < one.log.size(); ++i) {
      const auto mismatch = [&](const std::function<void(LogEntry&)>& change) {
        std::vector<LogEntry> log = one.log;
        change(log[i]);
        return kit::message_of<ReplayMismatch>([&] { static_cast<void>(replay(one, log)); });
      };
      const std::string named = mismatch([](LogEntry& entry) { entry.name += "x"; });
      EXPECT_TRUE(kit::contains(named, one.log[i].name + "x'")) << named;
      EXPECT_TRUE(kit::contains(named, "the program waits for: ")) << named;
      EXPECT_TRUE(
          kit::contains(mismatch([](LogEntry& entry) { ++entry.hash; }), "other arguments"));
      EXPECT_TRUE(kit::contains(mismatch([](LogEntry& entry) { entry.key.scope += 1000; }),
                                "does not wait for it"));
      // Whatever comes of these, it is no undefined behaviour.
      for (int change = 0; change < 4; ++change) {
        std::vector<LogEntry> log = one.log;
        const auto at = log.begin() + static_cast<std::ptrdiff_t>(i);
        if (change == 0) log.erase(at);
        if (change == 1) log.insert(at, LogEntry{*at});
        if (change == 2) at->value = "nonsense";
        if (change == 3 && i + 1 < log.size()) std::swap(log[i], log[i + 1]);
        try {
          static_cast<void>(replay(one, log));
        } catch (const ReplayMismatch&) {
        }
      }
    }
  }
}

TEST(FlowEntries, AreReadBackAndRefusedWhenDamaged) {
  const LogEntry entry{.kind = EntryKind::step_retry,
                       .key = {.scope = 3, .sequence = 70'000},
                       .stamp = MemoryStore::virtual_start,
                       .name = "charge",
                       .hash = 42,
                       .attempt = 2,
                       .value = R"({"a":1})"};
  const std::string bytes = flow::encode(entry);
  EXPECT_EQ(flow::decode_entry(bytes), entry);
  EXPECT_TRUE(bytes.ends_with(R"(charge{"a":1})"));  // Readable.
  for (std::size_t size = 0; size < bytes.size() - entry.value.size(); ++size) {
    EXPECT_FALSE(flow::decode_entry(bytes.substr(0, size)).has_value()) << size;
  }
  std::string newer = bytes;
  newer[1] = 100;
  EXPECT_EQ(flow::decode_entry(newer).error(),
            "the entry has the unknown kind 100: a newer version wrote it");
  newer[0] = 2;
  EXPECT_EQ(flow::decode_entry(newer).error(),
            "the entry has format 2, and this program knows format 1: use the version that wrote "
            "it, or a newer one");
}

TEST(FlowEntries, RecordsAndMessagesAreReadBack) {
  flow::Record record;
  record.state = FlowState::timed_out;
  record.type = "transfer";
  record.deadline = MemoryStore::virtual_start;
  record.tags = {{"team", "red"}};
  record.input = "[1]";
  const std::string bytes = flow::encode(record);
  EXPECT_EQ(flow::decode_record(bytes), record);
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_FALSE(flow::decode_record(bytes.substr(0, size)).has_value()) << size;
  }
  const flow::Message message{
      .kind = flow::Message::Kind::signal, .workflow = "w", .name = "approve", .value = "true"};
  EXPECT_EQ(flow::decode_message(flow::encode(message)), message);
  EXPECT_FALSE(flow::decode_message("").has_value());
}

}  // namespace
}  // namespace tenure
