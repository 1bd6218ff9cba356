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
            .sql = target_->in_schema("SELECT * FROM @.look(" + numbered(1, 10) + ')')},
      change_{.name = "tenure_change",
              .sql = target_->in_schema("CALL @.change(" + numbered(1, 16) +
                                        ",NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL)")},
      change_all_{
          .name = "tenure_change_all",
          .sql = target_->in_schema("CALL @.change_all(" + numbered(1, 10) + ",NULL,NULL,NULL)")} {
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

// A process that made the last two revisions is likely to make the next.
class Executor::Writing {
 public:
  explicit Writing(Executor& executor)
      : executor_(executor), first_(executor_.writing_.fetch_add(1) == 0) {}
  Writing(const Writing&) = delete;
  Writing& operator=(const Writing&) = delete;
  ~Writing() { executor_.writing_.fetch_sub(1); }
  [[nodiscard]] bool alone() const { return first_ && executor_.alone_.load(); }
  // `on`: the newest revision before.
  void made(Revision on, Revision revision) {
    executor_.alone_.store(executor_.written_.exchange(revision.value) == on.value);
  }

 private:
  Executor& executor_;
  const bool first_;
};

Answer Executor::make(const Txn& txn, bool alone) {
  if (!pooled()) {
    const std::optional<Revision> own = alone ? foreseen(txn) : std::nullopt;
    if (auto batch = batches_->batch_of(txn, own)) {
      auto answer = perform(false, [&](Connection& connection, const Patience& how) {
        return batches_->run(txn, *batch, alone, connection, how);
      });
      if (own) answer ? own_.was_ours() : own_.was_not_ours();
      if (answer) return *std::move(answer);
    }
  }
  if (txn.writes.empty()) return answer_of(txn, call(look_, params_of(txn), true));
  return answer_of(txn, perform(false, [&](Connection& connection, const Patience& how) {
                     if (!connection.pooled()) return connection.call(change_, params_of(txn), how);
                     Txn guarded = txn;
                     guarded.guards.push_back(Guard::absent(void_key(connection.id())));
                     return connection.call(change_, params_of(guarded), how);
                   }));
}

std::optional<Revision> Executor::foreseen(const Txn& txn) {
  if (txn.guards.size() != 1 || txn.writes.front().kind != Write::Kind::append) {
    return std::nullopt;
  }
  const auto use = own_.use(txn, txn.guards.front().range.from);
  if (!use || !use->present) return std::nullopt;
  if (std::ranges::find(use->empty, false) != use->empty.end()) return std::nullopt;
  return use->head.revision;
}

// Every revision is one more than the last, so a process knows on which revision its own was made.
// For the first revision of an epoch that is wrong, but then no process has made the revision it
// names.
void Executor::own(const Txn& txn, const Answer& answer) {
  if (!answer.outcome.committed) return;
  const Revision revision = answer.outcome.revision;
  stores::SoleWriter<Head>::Commit commit{.head = {revision},
                                          .on = Revision{revision.value - 1},
                                          .changes = stores::changes_of(txn, revision)};
  for (const Guard& guard : txn.guards) {
    if (guard.kind == Guard::Kind::present) commit.present = guard.range.from;
  }
  if (answer.nothing_there) commit.empty = txn.reads;
  own_.moved(commit);
}

Outcome Executor::apply(const Txn& txn) {
  check_size(txn);
  resolve_unknown_commits(patience);
  const std::int64_t sent = boot_ns();
  std::optional<Writing> writing;
  if (!txn.writes.empty()) writing.emplace(*this);
  Answer answer = make(txn, writing && writing->alone());
  if (answer.clock_ns != 0) clock_.saw(answer.clock_ns, sent, boot_ns());
  if (writing) own(txn, answer);
  if (writing && answer.outcome.committed) {
    const Revision revision = answer.outcome.revision;
    writing->made(Revision{revision.value - 1}, revision);
    remember(txn, answer.outcome);
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
    Writing writing{*this};
    const std::int64_t sent = boot_ns();
    const Result result = perform(false, [&](Connection& connection, const Patience& how) {
      return connection.call(change_all_, params_of(postings), how);
    });
    clock_.saw(result.number(0, 1), sent, boot_ns());
    made_together(postings, result);
    const Revision newest = postings.back().outcome.revision;
    writing.made(Revision{static_cast<std::uint64_t>(result.number(0, 0))}, newest);
    forget_removed(newest);
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

void Executor::made_together(std::span<stores::Posting> postings, const Result& result) {
  Revision newest{static_cast<std::uint64_t>(result.number(0, 0))};
  stores::SoleWriter<Head>::Commit commit{.head = {}, .on = newest};
  const auto revisions = elements_in(result.bytes(0, 2));
  for (std::size_t i = 0; i < postings.size(); ++i) {
    const auto revision = static_cast<std::uint64_t>(number_in(revisions.at(i)));
    Outcome& outcome = postings[i].outcome;
    outcome.committed = revision != 0;
    if (outcome.committed) {
      newest.value = revision;
      std::ranges::move(stores::changes_of(postings[i].txn, newest),
                        std::back_inserter(commit.changes));
    }
    outcome.revision = newest;
  }
  commit.head = {newest};
  own_.moved(commit);
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

void Executor::remember(const Txn& txn, const Outcome& outcome) {
  if (is_durable(txn)) {
    forget_removed(outcome.revision);
    return;
  }
  const Lock lock{mutex_};
  for (const Write& write : txn.writes) {
    removed_.push_back({.key = write.key, .revision = outcome.revision.value});
  }
  while (removed_.size() > max_remembered) removed_.pop_front();
}

// A durable commit followed: the server's log is written in order, and so are revisions.
void Executor::forget_removed(Revision before) {
  const Lock lock{mutex_};
  while (!removed_.empty() && removed_.front().revision < before.value) removed_.pop_front();
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
      const Answer seen =
          answer_of(look, connection.call(look_, params_of(look), {.limit = target_->silence}));
      if (seen.outcome.reads[0].empty()) continue;
      const Entry& entry = seen.outcome.reads[0][0];
      if (entry.changed.value >= one.revision) continue;
      Txn remove;
      remove.durability = Durability::full;
      remove.guards.push_back(Guard::unchanged(entry.key, entry.changed));
      remove.writes.push_back(Write::remove(entry.key));
      std::ignore = connection.call(change_, params_of(remove), {.limit = target_->silence});
    }
  } catch (...) {
    const Lock lock{mutex_};
    doubt_ = true;
    throw;
  }
}

}  // namespace tenure::postgres
