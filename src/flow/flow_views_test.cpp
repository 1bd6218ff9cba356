// The SQL views of workflows and their logs show what programs see of them.
#include <gtest/gtest.h>
#include <sqlite3.h>

#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "flow/entry.hpp"
#include "flow/keys.hpp"
#include "tenure/flow.hpp"
#include "tests/kit/postgres.hpp"
#include "tests/kit/scratch.hpp"

namespace tenure::flow {
namespace {

using namespace std::chrono_literals;

// One JSON array per row, as both databases write it; asked with the same SQL.
class FlowViews : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (on_postgres()) schema_ = std::make_unique<kit::Schema>();
    store_ = tenure::store(on_postgres() ? schema_->url() : "sqlite:" + file());
  }
  [[nodiscard]] static bool on_postgres() { return GetParam() == "postgres"; }
  // The columns, joined by blanks, of all rows, joined by semicolons. `rest` has the conditions.
  [[nodiscard]] std::string rows(const std::vector<std::string>& columns, const std::string& view,
                                 const std::string& rest) const {
    std::string list;
    for (const std::string& column : columns) {
      list += (list.empty() ? "" : " || ' ' || ") + ("coalesce(CAST(" + column + " AS TEXT), '-')");
    }
    const std::string inner = "(SELECT " + list + " AS line FROM " +
                              (on_postgres() ? schema_->name() + "." : "tenure_") + view + " " +
                              rest + ") AS rows";
    if (on_postgres()) {
      return kit::Postgres::instance().sql("SELECT string_agg(line, ';') FROM " + inner);
    }
    return ask("SELECT group_concat(line, ';') FROM " + inner);
  }
  void put(std::string key, std::string value) {
    Txn txn;
    txn.writes.push_back(Write::put(std::move(key), std::move(value)));
    store_->apply(txn);
  }

  std::shared_ptr<Store> store_;

 private:
  [[nodiscard]] std::string file() const { return (directory_ / "app.db").string(); }
  [[nodiscard]] std::string ask(const std::string& sql) const {
    sqlite3* database = nullptr;
    sqlite3_open_v2(file().c_str(), &database, SQLITE_OPEN_READONLY, nullptr);
    std::string text;
    char* error = nullptr;
    sqlite3_exec(
        database, sql.c_str(),
        [](void* out, int /*count*/, char** values, char**) {
          *static_cast<std::string*>(out) = values[0] == nullptr ? "" : values[0];
          return 0;
        },
        &text, &error);
    if (error != nullptr) text = error;
    sqlite3_free(error);
    sqlite3_close(database);
    return text;
  }

  kit::TemporaryDirectory directory_;
  std::unique_ptr<kit::Schema> schema_;
};

constexpr Instant moment{1'700'000'000'250ms};
constexpr std::string_view moment_condition = "time > '2023-11-14T22:13:19Z'";

TEST_P(FlowViews, HaveEveryKindOfEntryAndEverySizeOfNumber) {
  const std::string id = "order/\u00fc";
  std::uint32_t order = 0;
  std::string expected;
  for (std::uint32_t kind = 1; kind < 256; ++kind) {
    if (!is_entry_kind(static_cast<std::uint8_t>(kind))) continue;
    LogEntry entry;
    entry.kind = static_cast<EntryKind>(kind);
    entry.stamp = moment;
    entry.hash = ~std::uint64_t{0};
    entry.key = {.scope = 0xffffffffU >> order, .sequence = 1U << order};
    entry.attempt = 127 + order;
    entry.name = std::string(order * 20, 'n');
    entry.value = order % 2 == 0 ? "" : R"({"n":)" + std::to_string(order) + "}";
    put(keys::log(keys::log_prefix(7, id), order), encode(entry));
    expected += (order == 0 ? "" : ";") + std::to_string(order) + " " +
                std::string{text_of(entry.kind)} + " " + std::to_string(entry.key.scope) + " " +
                std::to_string(entry.key.sequence) + " " + std::to_string(entry.attempt) + " " +
                entry.name + " " + entry.value;
    ++order;
  }
  ASSERT_GE(order, 20U);
  EXPECT_EQ(rows({"number", "kind", "scope", "sequence", "attempt", "name", "value"}, "flow_log",
                 "WHERE run = 0 AND workflow = '" + id + "' AND " + std::string{moment_condition} +
                     " ORDER BY number"),
            expected);
}

TEST_P(FlowViews, HaveLaterRuns) {
  LogEntry entry;
  entry.stamp = moment;
  entry.name = "charge";
  entry.value = "7";
  put(keys::log(keys::log_prefix(1, "a"), 0), encode(entry));
  put(keys::log(keys::log_prefix(1, "a", 70'000), 300'000), encode(entry));
  EXPECT_EQ(rows({"workflow", "run", "number", "name", "value"}, "flow_log", "ORDER BY run"),
            "a 0 0 charge 7;a 70000 300000 charge 7");
}

TEST_P(FlowViews, HaveRecordsWithAllTheirParts) {
  Record record;
  record.type = "order";
  record.seed = ~std::uint64_t{0};
  record.created = moment;
  record.starts = moment;
  record.input = "[" + std::string(300, '1') + "]";
  put(keys::record(0, "plain"), encode(record));
  record.deadline = moment;
  record.starts = Instant{std::chrono::sys_days{std::chrono::year{2199} / 1 / 1}};
  put(keys::record(1, "later"), encode(record));
  record.starts = moment;
  record.ended = moment + 1s;
  record.idempotency_key = std::string(200, 'k');
  record.parent = "parent";
  record.tags = {{"a", std::string(200, 'x')}, {"b", ""}};
  record.result = R"({"type":"x"})";
  record.run = 1'000'000;
  record.root = "root";
  for (int state = static_cast<int>(FlowState::completed);
       state <= static_cast<int>(FlowState::timed_out); ++state) {
    record.state = static_cast<FlowState>(state);
    put(keys::record(63, std::string{text_of(record.state)}), encode(record));
  }
  put(keys::record(5, "damaged"), encode(record).substr(0, 40));
  const std::string ones(300, '1');
  const std::string times =
      on_postgres() ? "extract(year FROM deadline)" : "substr(deadline, 1, 4)";
  const std::string ended =
      on_postgres() ? "extract(second FROM ended)::integer" : "substr(ended, 18, 2)";
  EXPECT_EQ(rows({"id", "type", "state", times, ended, "run", "tags", "input", "result"}, "flows",
                 "WHERE type IS NOT NULL AND id IN ('plain', 'later') ORDER BY id"),
            "later order scheduled 2023 - 0 {} [" + ones + "] -;plain order running - - 0 {} [" +
                ones + "] -");
  EXPECT_EQ(
      rows({"id", "state", times, ended, "run", "result"}, "flows", "WHERE run > 0 ORDER BY id"),
      R"(cancelled cancelled 2023 21 1000000 {"type":"x"};)"
      R"(completed completed 2023 21 1000000 {"type":"x"};)"
      R"(failed failed 2023 21 1000000 {"type":"x"};)"
      R"(timed-out timed-out 2023 21 1000000 {"type":"x"})");
  const auto tags = nlohmann::json::parse(rows({"tags"}, "flows", "WHERE id = 'failed'"));
  EXPECT_EQ(tags, (nlohmann::json{{"a", std::string(200, 'x')}, {"b", ""}}));
  EXPECT_EQ(rows({"id", "type"}, "flows", "WHERE id = 'damaged'"), "damaged -");
}

Flow<int> order(Context& ctx, int amount) {
  co_return co_await ctx.run("charge", [](int value) { return value + 1; }, amount);
}

TEST_P(FlowViews, ShowAWorkflowThatRan) {
  Engine engine{store_};
  engine.define("order", order);
  const tenure::Run run = engine.start({.id = "order-7", .tags = {{"by", "Ann"}}}, "order", 41);
  EXPECT_EQ(run.result<int>(), 42);
  EXPECT_EQ(rows({"id", "type", "state", "input", "result"}, "flows", ""),
            "order-7 order completed [41] 42");
  EXPECT_EQ(rows({"workflow", "number", "kind", "name", "value"}, "flow_log", ""),
            "order-7 0 step done charge 42");
}

INSTANTIATE_TEST_SUITE_P(In, FlowViews, ::testing::Values("sqlite", "postgres"),
                         [](const auto& one) { return one.param; });

}  // namespace
}  // namespace tenure::flow
