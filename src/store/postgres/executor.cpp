#include "store/postgres/executor.hpp"

#include <algorithm>
#include <iterator>
#include <random>
#include <thread>
#include <utility>

#include "base/backoff.hpp"
#include "store/postgres/request.hpp"
#include "store/postgres/schema.hpp"
#include "store/postgres/statements.hpp"

namespace tenure::postgres {
namespace {

using namespace std::chrono_literals;

constexpr auto first_pause = 20ms;
constexpr auto longest_pause = 500ms;
constexpr auto clock_lasts = 10s;
constexpr int most_conflicts = 20;

std::string numbered(std::size_t from, std::size_t count) {
  std::string text;
  for (std::size_t i = from; i < from + count; ++i) {
    if (i != from) text += ',';
    text += '$' + std::to_string(i);
  }
  return text;
}

// The transaction was rolled back, and a retry may succeed.
bool is_conflict(const Failed& failed) {
  return failed.state() == "40001" || failed.state() == "40P01";
}

// The backend is not the one on which the statement was prepared.
bool is_unprepared(const Failed& failed) { return failed.state() == "26000"; }

// The server ended the backend, possibly after its first commit.
bool is_cut_off(const Failed& failed) {
  return failed.broken() || failed.state().starts_with("57") || failed.state().starts_with("58");
}

std::string advice(const Failed& failed) {
  const std::string_view state = failed.state();
  if (state == "42501") {
    return ": grant this user USAGE on the schema, SELECT, INSERT, UPDATE and DELETE on its tables "
           "and EXECUTE on its routines, or use another user";
  }
  if (state == "25006") {
    return ": the server rejects writes: connect to the primary, and check "
           "default_transaction_read_only";
  }
  if (state.starts_with("53")) return ": the server is out of disk space, memory or connections";
  if (state == "3F000" || state == "42883" || state == "42P01") {
    return ": the schema was dropped or is incomplete: drop it if it still exists, and restart "
           "this program, which creates it again";
  }
  return {};
}

}  // namespace

Executor::Executor(Target target)
    : target_(std::make_shared<const Target>(std::move(target))),
      look_{.name = "tenure_look",
            .sql = target_->in_schema("SELECT * FROM @.look(" + numbered(1, 11) + ')')},
      change_{.name = "tenure_change",
              .sql = target_->in_schema("CALL @.change(" + numbered(1, 18) +
                                        ",NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL)")},
      change_all_{
          .name = "tenure_change_all",
          .sql = target_->in_schema("CALL @.change_all(" + numbered(1, 12) + ",NULL,NULL,NULL)")} {
  for (auto pause = std::chrono::milliseconds{first_pause};; pause *= 2) {
    try {
      auto connection = std::make_unique<Connection>(target_);
      schema_number_ = open_schema(*connection, *target_);
      batches_ = std::make_unique<const Batches>(*target_, schema_number_);
      pooled_ = connection->pooled();
      give_back(std::move(connection));
      return;
    } catch (const NoConnection& error) {
      if (!error.for_now() || pause > longest_pause * 4) throw StoreError(error.what());
    } catch (const Failed& failed) {
      throw StoreError(failed.what() + advice(failed));
    }
    std::this_thread::sleep_for(pause);
  }
}

std::unique_ptr<Connection> Executor::connect(std::chrono::milliseconds limit) {
  const std::int64_t until = boot_ns() + std::chrono::nanoseconds{limit}.count();
  base::Backoff backoff{first_pause, longest_pause};
  for (;;) {
    try {
      auto connection = std::make_unique<Connection>(target_);
      pooled_ = connection->pooled();
      drop_stale();
      remove_again(*connection);
      return connection;
    } catch (const NoConnection& error) {
      if (boot_ns() >= until) throw StoreError(error.what());
    } catch (const Failed& failed) {
      if (boot_ns() >= until) throw StoreError(failed.what());
    }
    std::random_device random;
    std::this_thread::sleep_for(backoff.next(random));
  }
}

void Executor::doubt() {
  const Lock lock{mutex_};
  doubt_ = true;
}

// --- the pool

std::unique_ptr<Connection> Executor::borrow() {
  {
    Lock lock{mutex_};
    while (idle_.empty() && out_ >= max_connections) returned_.wait(lock);
    ++out_;
    while (!idle_.empty()) {
      auto connection = std::move(idle_.back());
      idle_.pop_back();
      if (!connection->stale()) return connection;
      doubt_ = true;
    }
  }
  try {
    return connect(patience);
  } catch (...) {
    const Lock lock{mutex_};
    --out_;
    returned_.notify_one();
    throw;
  }
}

// A server that crashed has ended its idle connections. A process with no other activity than its
// renewals notices the crash only here.
void Executor::drop_stale() {
  const Lock lock{mutex_};
  const std::size_t stale = std::erase_if(idle_, [](const auto& one) { return one->stale(); });
  doubt_ = doubt_ || stale > 0;
}

// If one connection broke, the idle ones probably did too. Some show that only by silence, and
// later callers should not wait for each of them in turn.
void Executor::give_back(std::unique_ptr<Connection> connection) {
  std::vector<std::unique_ptr<Connection>> suspects;
  const Lock lock{mutex_};
  if (out_ > 0) --out_;
  if (connection) {
    idle_.push_back(std::move(connection));
  } else {
    doubt_ = true;
    suspects.swap(idle_);
  }
  returned_.notify_one();
}

// Returns the connection to the pool unless it broke.
class Executor::Borrowed {
 public:
  explicit Borrowed(Executor& executor) : executor_(executor), connection_(executor.borrow()) {}
  Borrowed(const Borrowed&) = delete;
  Borrowed& operator=(const Borrowed&) = delete;
  ~Borrowed() { executor_.give_back(std::move(connection_)); }
  Connection& operator*() { return *connection_; }
  Connection* operator->() { return connection_.get(); }
  void drop() { connection_.reset(); }
  void judge(const Failed& failed) {
    if (failed.broken() || is_unprepared(failed)) drop();
  }

 private:
  Executor& executor_;
  std::unique_ptr<Connection> connection_;
};

// --- calls

template <typename Call>
auto Executor::perform(bool again, const Call& call) {
  int conflicts = 0;
  for (const std::int64_t until = boot_ns() + std::chrono::nanoseconds{patience}.count();;) {
    UnknownCommit lost;
    try {
      Borrowed connection{*this};
      try {
        round_trips_.fetch_add(1, std::memory_order_relaxed);
        return call(*connection,
                    Patience{.limit = target_->silence, .why_silent = [this, &connection] {
                               return why_silent(*connection);
                             }});
      } catch (const Failed& failed) {
        lost = {.connection_id = connection->id(), .pooled = connection->pooled()};
        connection.judge(failed);
        throw;
      }
    } catch (const Failed& failed) {
      const bool free = again || !failed.sent();  // The call may be made again.
      if (free && is_cut_off(failed) && boot_ns() < until) continue;
      if ((is_conflict(failed) || is_unprepared(failed)) && ++conflicts < most_conflicts) continue;
      if (free && is_cut_off(failed)) throw StoreError(failed.what());
      if (failed.broken()) add_unknown_commit(lost);
      throw_for(failed);
    }
  }
}

Result Executor::call(const Statement& statement, const Params& params, bool again) {
  return perform(again, [&](Connection& connection, const Patience& how) {
    return connection.call(statement, params, how);
  });
}

// For a call that is not repeated.
void Executor::throw_for(const Failed& failed) {
  if (!is_cut_off(failed)) throw StoreError(failed.what() + advice(failed));
  throw StoreError(
      std::string{failed.what()} +
          ": it is not known whether the transaction was committed: read before retrying",
      true);
}

Result Executor::ask(const Statement& statement, const Params& params) {
  return call(statement, params, true);
}

Result Executor::ask(const std::string& sql) {
  Borrowed connection{*this};
  try {
    return connection->execute(sql);
  } catch (const Failed& failed) {
    if (failed.broken()) connection.drop();
    throw StoreError(failed.what() + advice(failed));
  }
}

std::vector<Revision> Executor::heads() {
  const Result rows = ask(target_->in_schema("SELECT h.newest FROM @.head AS h ORDER BY h.bucket"));
  std::vector<Revision> heads;
  heads.reserve(bucket_count);
  for (int row = 0; row < rows.rows(); ++row) {
    heads.push_back({std::stoull(rows.text(row, 0))});
  }
  heads.resize(bucket_count);
  return heads;
}

// A process that made the last two revisions of an order is likely to make the next.
class Executor::Writing {
 public:
  explicit Writing(Order& order) : order_(order), first_(order.writing.fetch_add(1) == 0) {}
  Writing(const Writing&) = delete;
  Writing& operator=(const Writing&) = delete;
  ~Writing() { order_.writing.fetch_sub(1); }
  [[nodiscard]] bool alone() const { return first_ && order_.alone.load(); }
  // `on`: the newest revision before.
  void made(Revision on, Revision revision) {
    order_.alone.store(order_.written.exchange(revision.value) == on.value);
  }

 private:
  Order& order_;
  const bool first_;
};

Answer Executor::make(const Txn& txn, const Buckets& buckets, Order* order, bool alone) {
  if (order != nullptr && !pooled()) {
    const std::optional<Revision> own = alone ? foreseen(txn, *order) : std::nullopt;
    if (auto batch = batches_->batch_of(txn, buckets.lowest(), own)) {
      auto answer = perform(false, [&](Connection& connection, const Patience& how) {
        return batches_->run(txn, *batch, alone, connection, how);
      });
      if (own) answer ? order->own.was_ours() : order->own.was_not_ours();
      if (answer) return *std::move(answer);
    }
  }
  if (txn.writes.empty() && order != nullptr) {
    return answer_of(txn, call(look_, look_params(txn, buckets.lowest()), true));
  }
  return change(txn, buckets);
}

// A read in several orders is a change too: it makes them comparable.
Answer Executor::change(const Txn& txn, const Buckets& buckets) {
  const bool again = txn.writes.empty();
  return answer_of(txn, perform(again, [&](Connection& connection, const Patience& how) {
                     if (again || !connection.pooled()) {
                       return connection.call(change_, change_params(txn, buckets), how);
                     }
                     Txn guarded = txn;
                     guarded.guards.push_back(Guard::absent(void_key(connection.id())));
                     return connection.call(change_, change_params(guarded, buckets), how);
                   }));
}

std::optional<Revision> Executor::foreseen(const Txn& txn, Order& order) {
  if (txn.guards.size() != 1 || txn.writes.front().kind != Write::Kind::append) {
    return std::nullopt;
  }
  const auto use = order.own.use(txn, txn.guards.front().range.from);
  if (!use || !use->present) return std::nullopt;
  if (std::ranges::find(use->empty, false) != use->empty.end()) return std::nullopt;
  return use->head.revision;
}

// Every revision of an order is one step more than the last, so a process knows on which revision
// its own was made. For the first revision of an epoch, or after one of several orders, that is
// wrong, but then no process has made the revision it names.
void Executor::own(const Txn& txn, const Answer& answer, Order& order) {
  if (!answer.outcome.committed) return;
  const Revision revision = answer.outcome.revision;
  stores::SoleWriter<Head>::Commit commit{.head = {revision},
                                          .on = Revision{revision.value - revision_step},
                                          .changes = stores::changes_of(txn, revision)};
  for (const Guard& guard : txn.guards) {
    if (guard.kind == Guard::Kind::present) commit.present = guard.range.from;
  }
  if (answer.nothing_there) commit.empty = txn.reads;
  order.own.moved(commit);
}

void Executor::moved(const Buckets& buckets, Revision revision) {
  const auto one = [&](Order& order) {
    order.own.moved({.head = {revision}});
    order.written.store(revision.value);
    order.alone.store(false);
  };
  if (buckets.all()) {
    for (int bucket = 0; bucket < bucket_count; ++bucket) one(order_of(bucket));
  }
  for (const int bucket : buckets.list()) one(order_of(bucket));
}

Outcome Executor::apply(const Txn& txn, bool own_session) {
  check_size(txn);
  resolve_unknown_commits(patience);
  const Buckets buckets = buckets_of(txn, own_session);
  Order* const order = buckets.one() ? &order_of(buckets.lowest()) : nullptr;
  const std::uint64_t removals = this->removals();
  const std::int64_t sent = boot_ns();
  std::optional<Writing> writing;
  if (!txn.writes.empty() && order != nullptr) writing.emplace(*order);
  Answer answer = make(txn, buckets, order, writing && writing->alone());
  if (answer.clock_ns != 0) clock_.saw(answer.clock_ns, sent, boot_ns());
  if (!txn.writes.empty() && answer.outcome.committed) {
    const Revision revision = answer.outcome.revision;
    if (writing) {
      own(txn, answer, *order);
      writing->made(Revision{revision.value - revision_step}, revision);
    } else {
      moved(buckets, revision);
    }
    remember(txn, answer.outcome, removals);
  }
  return std::move(answer.outcome);
}

void Executor::apply_all(std::span<stores::Posting> postings) {
  std::size_t size = 0;
  const auto fits = [&size](const Txn& txn) {
    for (const Write& write : txn.writes) size += write.key.size() + write.value.size();
    return txn.reads.empty() && !txn.writes.empty() && size < max_request_size / 2;
  };
  while (!postings.empty()) {
    size = 0;
    const bool can = !pooled() && refused_.load() < most_refused;
    const std::size_t count = can ? stores::independent(postings, fits) : 1;
    if (count == 1 || !apply_together(postings.first(count))) apply_each(postings.first(count));
    postings = postings.subspan(count);
  }
}

// If the server can't be reached for one transaction, the later ones fail with the same error
// instead of waiting as long each.
void Executor::apply_each(std::span<stores::Posting> postings) {
  std::exception_ptr failed;
  for (stores::Posting& one : postings) {
    one.error = failed;
    if (failed) continue;
    try {
      one.outcome = apply(one.txn);
    } catch (const StoreError& error) {
      one.error = std::current_exception();
      if (!error.unknown()) failed = one.error;
    } catch (...) {
      one.error = std::current_exception();
    }
  }
}

// False: nothing was written, and each transaction must be made by itself to get its own error.
bool Executor::apply_together(std::span<stores::Posting> postings) {
  try {
    for (const stores::Posting& one : postings) check_size(one.txn);
    resolve_unknown_commits(patience);
    Buckets buckets;
    for (const stores::Posting& one : postings) buckets.add(buckets_of(one.txn));
    const std::uint64_t removals = this->removals();
    const std::int64_t sent = boot_ns();
    const Result result = perform(false, [&](Connection& connection, const Patience& how) {
      return connection.call(change_all_, params_of(postings, buckets), how);
    });
    clock_.saw(result.number(0, 1), sent, boot_ns());
    made_together(postings, buckets, result);
    if (std::ranges::any_of(postings, [](const auto& one) { return one.outcome.committed; })) {
      forget_removed(removals);
    }
    refused_.store(0);
    return true;
  } catch (const StoreError& error) {
    if (!error.unknown()) {
      refused_.fetch_add(1);
      return false;
    }
    for (stores::Posting& one : postings) one.error = std::current_exception();
    return true;
  } catch (const Error&) {
    return false;
  }
}

void Executor::made_together(std::span<stores::Posting> postings, const Buckets& buckets,
                             const Result& result) {
  const Revision base{static_cast<std::uint64_t>(result.number(0, 0))};
  Revision newest = base;
  std::vector<stores::Change> changes;
  const auto revisions = elements_in(result.bytes(0, 2));
  for (std::size_t i = 0; i < postings.size(); ++i) {
    const auto revision = static_cast<std::uint64_t>(number_in(revisions.at(i)));
    Outcome& outcome = postings[i].outcome;
    outcome.committed = revision != 0;
    if (outcome.committed) {
      newest.value = revision;
      std::ranges::move(stores::changes_of(postings[i].txn, newest), std::back_inserter(changes));
    }
    outcome.revision = newest;
  }
  if (newest == base) return;
  if (const std::optional<int> bucket = buckets.one()) {
    Order& order = order_of(*bucket);
    order.own.moved({.head = {newest}, .on = base, .changes = std::move(changes)});
    order.alone.store(order.written.exchange(newest.value) == base.value);
  } else {
    moved(buckets, newest);
  }
}

void Executor::flush() {
  std::ignore = perform(true, [&](Connection& connection, const Patience& /*how*/) {
    return connection.execute(flush_sql());
  });
}

Instant Executor::now() {
  if (!clock_.fresh(clock_lasts)) std::ignore = apply({});
  return clock_.now();
}

// --- removes that may have been lost

void Executor::remember(const Txn& txn, const Outcome& outcome, std::uint64_t removals) {
  if (is_durable(txn)) {
    forget_removed(removals);
    return;
  }
  const Lock lock{mutex_};
  for (const Write& write : txn.writes) {
    removed_.push_back(
        {.key = write.key, .revision = outcome.revision.value, .serial = ++removals_});
  }
  while (removed_.size() > max_remembered) removed_.pop_front();
}

// The server's log is written in order: what was removed before a durable commit began is durable.
void Executor::forget_removed(std::uint64_t removals) {
  const Lock lock{mutex_};
  while (!removed_.empty() && removed_.front().serial <= removals) removed_.pop_front();
}

std::uint64_t Executor::removals() {
  const Lock lock{mutex_};
  return removals_;
}

void Executor::remove_again(Connection& connection) {
  std::vector<Removed> all;
  {
    const Lock lock{mutex_};
    if (!std::exchange(doubt_, false)) return;
    all.assign(removed_.begin(), removed_.end());
  }
  try {
    for (const Removed& one : all) {
      Txn look;
      look.reads.push_back(Range::key(one.key));
      const Answer seen = answer_of(look, connection.call(look_, look_params(look, plain_bucket),
                                                          {.limit = target_->silence}));
      if (seen.outcome.reads[0].empty()) continue;
      const Entry& entry = seen.outcome.reads[0][0];
      if (entry.changed.value >= one.revision) continue;
      Txn remove;
      remove.durability = Durability::full;
      remove.guards.push_back(Guard::unchanged(entry.key, entry.changed));
      remove.writes.push_back(Write::remove(entry.key));
      std::ignore = connection.call(change_, change_params(remove, buckets_of(remove)),
                                    {.limit = target_->silence});
    }
  } catch (...) {
    const Lock lock{mutex_};
    doubt_ = true;
    throw;
  }
}

}  // namespace tenure::postgres
