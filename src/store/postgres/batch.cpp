#include "store/postgres/batch.hpp"

#include <algorithm>
#include <array>
#include <span>
#include <string>
#include <utility>

#include "store/postgres/statements.hpp"

namespace tenure::postgres {
namespace {

// How a range is read, as a letter; zero: only change() can read it.
char manner_of(const Range& range) {
  const bool earlier = range.before == this_apply;
  if (range.limit != 1 || range.skip != 0 || (!earlier && range.before != Revision{})) return 0;
  if (range.reverse) return earlier ? 'r' : 'R';
  return earlier ? 'f' : 'F';
}

// The ranges of a free lock are empty, and one query finds that out. Only if there is an entry,
// take() reads it. Neither of the two sees the row that the statement itself inserts.
std::string add_sql(const Target& target, const std::string& manners) {
  if (manners.empty()) {
    return target.in_schema(or_give_back(std::string{add_ticket_sql} + "RETURNING true"));
  }
  std::string pairs;
  std::string froms;
  std::string tos;
  std::string ones;
  std::string zeros;
  std::string backwards;
  std::string stamps;
  for (std::size_t i = 0; i < manners.size(); ++i) {
    const char* const comma = i == 0 ? "" : ",";
    const std::string from = '$' + std::to_string(5 + (2 * i)) + "::bytea";
    const std::string to = '$' + std::to_string(6 + (2 * i)) + "::bytea";
    const bool earlier = manners[i] == 'r' || manners[i] == 'f';
    pairs.append(comma).append("(").append(from).append(",").append(to).append(")");
    froms.append(comma).append(from);
    tos.append(comma).append(to);
    ones.append(comma).append("1");
    zeros.append(comma).append("0");
    backwards.append(comma).append(manners[i] == 'r' || manners[i] == 'R' ? "true" : "false");
    stamps.append(comma).append(earlier ? "int8send(created)" : "NULL");
  }
  return target.in_schema(or_give_back(
      std::string{add_ticket_sql} + "RETURNING CASE WHEN EXISTS (SELECT FROM (VALUES " + pairs +
      ") AS r(f, t), @.entry AS e WHERE e.key >= r.f AND e.key < r.t) THEN @.take(ARRAY[" + froms +
      "], ARRAY[" + tos + "], '{" + ones + "}', '{" + zeros + "}', '{" + backwards + "}', ARRAY[" +
      stamps + "]::bytea[]) END"));
}

// Replaces each #. The caller has replaced each @ before.
std::string with_number(std::string sql, std::int64_t schema_number) {
  const std::string number = std::to_string(schema_number);
  for (std::size_t at = 0; (at = sql.find('#', at)) != std::string::npos;) {
    sql.replace(at, 1, number);
  }
  return sql;
}

// Whether the key that is appended may lie in the range: the statement does not see it.
bool may_read(const Range& range, const std::string& prefix) {
  if (range.before == this_apply) return false;
  return (range.to.empty() || prefix < range.to) &&
         prefix + std::string(stamp_size, '\xff') >= range.from;
}

// Parameters of number_sql. These two are set when the connection is known.
constexpr std::size_t table_param = 2;
constexpr std::size_t relaxed_param = 3;

Params numbered(const std::string& key, bool append, std::optional<Revision> own, int bucket,
                std::int64_t watching) {
  Params params{7, key.size() + 60};
  params.add_bytes(key);
  params.add_flag(append);
  params.add_number(0);
  params.add_number(1);
  params.add_number(static_cast<std::int64_t>(own.value_or(Revision{}).value));
  params.add_number(bucket);
  params.add_number(watching);
  return params;
}

Params added(const Txn& txn, int bucket) {
  const Write& write = txn.writes.front();
  Params params{4 + (2 * txn.reads.size()), 1'024};
  params.add_number(bucket);
  params.add_bytes(txn.guards.front().range.from);
  params.add_bytes(write.key);
  params.add_bytes(write.value);
  for (const Range& range : txn.reads) {
    params.add_bytes(range.from);
    params.add_bytes(end_of(range));
  }
  return params;
}

Params added_to_own(const Write& write, int bucket) {
  Params params{3, write.key.size() + write.value.size() + 8};
  params.add_number(bucket);
  params.add_bytes(write.key);
  params.add_bytes(write.value);
  return params;
}

Params dropped(const Guard& guard, int bucket) {
  const std::string& key = guard.range.from;
  const bool unchanged = guard.kind == Guard::Kind::unchanged;
  Params params{unchanged ? 3U : 2U, key.size() + 16};
  params.add_number(bucket);
  params.add_bytes(key);
  if (unchanged) params.add_number(static_cast<std::int64_t>(guard.revision.value));
  return params;
}

}  // namespace

Batches::Batches(const Target& target, std::int64_t schema_number)
    : marker_{.name = "tenure_marker", .sql = target.in_schema(marker_sql)},
      begin_{.name = "tenure_begin", .sql = "BEGIN ISOLATION LEVEL READ COMMITTED"},
      number_{.name = "tenure_number",
              .sql = with_number(target.in_schema(number_sql()), schema_number)},
      commit_{.name = "tenure_commit", .sql = "COMMIT"},
      flush_{.name = "tenure_flush", .sql = flush_sql()},
      drop_{.name = "tenure_drop", .sql = target.in_schema(or_give_back(drop_sql))},
      drop_unchanged_{.name = "tenure_drop_unchanged",
                      .sql = target.in_schema(or_give_back(drop_unchanged_sql))},
      add_to_own_{.name = "tenure_add_to_own", .sql = target.in_schema(add_to_own_sql)},
      target_(target),
      schema_number_(schema_number) {}

// One statement for each combination of ways to read ranges. There are few: they depend on the
// depth and on known groups.
const Statement* Batches::add_statement(const std::vector<Range>& reads) const {
  std::string manners;
  for (const Range& range : reads) {
    const char manner = manner_of(range);
    if (manner == 0) return nullptr;
    manners += manner;
  }
  if (manners.size() > max_ranges) return nullptr;
  const base::Mutex::Scoped lock{mutex_};
  auto at = add_.find(manners);
  if (at == add_.end()) {
    if (add_.size() == max_statements) return nullptr;
    const Statement statement{.name = "tenure_add_" + manners, .sql = add_sql(target_, manners)};
    at = add_.emplace(manners, statement).first;
  }
  return &at->second;
}

std::optional<Batches::Batch> Batches::batch_of(const Txn& txn, int bucket,
                                                std::optional<Revision> own) const {
  if (txn.writes.size() != 1 || txn.guards.size() != 1) return std::nullopt;
  const Guard& guard = txn.guards.front();
  const Write& write = txn.writes.front();
  const bool present = guard.kind == Guard::Kind::present;
  if (!present && guard.kind != Guard::Kind::unchanged) return std::nullopt;
  const Statement* statement = nullptr;
  const bool append = write.kind == Write::Kind::append;
  if (append && present) {
    const bool unread = std::ranges::none_of(
        txn.reads, [&](const Range& range) { return may_read(range, write.key); });
    if (unread) statement = own ? &add_to_own_ : add_statement(txn.reads);
  } else if (write.kind == Write::Kind::remove && guard.range.from == write.key &&
             txn.reads.empty() && !is_durable(txn)) {
    statement = present ? &drop_ : &drop_unchanged_;
  }
  if (statement == nullptr) return std::nullopt;
  Batch batch{.write = statement,
              .number = numbered(write.key, append, append ? own : std::nullopt, bucket,
                                 watching_lock(schema_number_, bucket))};
  if (!append) {
    batch.written = dropped(guard, bucket);
    batch.drops = true;
  } else if (own) {
    batch.written = added_to_own(write, bucket);
  } else {
    batch.written = added(txn, bucket);
    batch.reads = !txn.reads.empty();
  }
  if (batch.size() > max_size) return std::nullopt;
  return batch;
}

// Reads the marker once per connection. A failure counts as "not sent": the batch itself has not
// been sent yet.
bool Batches::vouch(Connection& connection, const Patience& patience) const {
  if (connection.pooled()) return false;
  if (connection.vouched().table != 0) return true;
  try {
    const Result seen = connection.call(marker_, {}, patience);
    if (seen.rows() == 1) {
      connection.vouch_for({.table = seen.number(0, 0), .two_commits = seen.flag(0, 1)});
    }
  } catch (const Failed& failed) {
    throw Failed(failed.what(), failed.state(), failed.broken(), false);
  }
  return connection.vouched().table != 0;
}

std::optional<Answer> Batches::run(const Txn& txn, Batch& batch, bool alone, Connection& connection,
                                   const Patience& patience) const {
  if (!vouch(connection, patience)) return std::nullopt;
  const bool relaxed = batch.drops || !alone || connection.vouched().two_commits;
  batch.number.set_number(table_param, connection.vouched().table);
  batch.number.set_number(relaxed_param, relaxed ? 1 : 0);
  static const Params none;
  const std::array<Step, 5> steps{{{.statement = &begin_, .params = &none},
                                   {.statement = &number_, .params = &batch.number},
                                   {.statement = batch.write, .params = &batch.written},
                                   {.statement = &commit_, .params = &none},
                                   {.statement = &flush_, .params = &none}}};
  // If one commit is enough, it is the end of the message.
  const bool whole = relaxed && !batch.drops;
  const std::span<const Step> all{steps};
  std::vector<Result> results;
  try {
    results = connection.run(whole ? all : all.subspan(1, 2), patience);
  } catch (const Failed& failed) {
    if (failed.done() == all.size() - 1 && !failed.broken()) {
      throw StoreError(std::string{failed.what()} +
                           ": the transaction was committed, but a crash of the server may lose it",
                       true);
    }
    if (failed.state() != number_refused) throw;
    connection.vouch_for({});
    return std::nullopt;
  }
  const std::size_t first = whole ? 1 : 0;
  const Result& number = results[first];
  const Result& write = results[first + 1];
  const bool made = write.changed() == 1;
  if (number.rows() != 1 || (!made && !batch.drops)) return std::nullopt;
  Answer answer;
  answer.outcome.committed = made;
  answer.outcome.revision.value =
      static_cast<std::uint64_t>(number.number(0, 0)) - (made ? 0 : revision_step);
  answer.outcome.reads.resize(txn.reads.size());
  answer.by_batch = true;
  answer.nothing_there = batch.reads && write.null(0, 0);
  if (batch.reads && !answer.nothing_there) {
    fill_reads(txn, fields_in(write.bytes(0, 0)), answer.outcome);
  }
  return answer;
}

}  // namespace tenure::postgres
