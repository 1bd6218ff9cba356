#include "store/postgres/engine.hpp"

#include <algorithm>
#include <thread>
#include <utility>

#include "store/postgres/request.hpp"
#include "store/postgres/schema.hpp"

namespace tenure::postgres {
namespace {

using namespace std::chrono_literals;

constexpr auto first_pause = 20ms;
constexpr auto longest_pause = 500ms;
constexpr auto settle_limit = 5s;
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

// It was rolled back, and may well go through next time.
bool is_conflict(const Failed& failed) {
  return failed.state() == "40001" || failed.state() == "40P01";
}

// The backend is not the one that the statement was prepared on.
bool is_unprepared(const Failed& failed) { return failed.state() == "26000"; }

// Ended from outside, perhaps behind its first commit.
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

Engine::Engine(Target target)
    : target_(std::make_shared<const Target>(std::move(target))),
      look_{.name = "tenure_look",
            .sql = target_->in_schema("SELECT * FROM @.look(" + numbered(1, 10) + ')')},
      change_{.name = "tenure_change",
              .sql = target_->in_schema("CALL @.change(" + numbered(1, 16) +
                                        ",NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL)")} {
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

std::string Engine::channel() const { return "tenure " + std::to_string(schema_number_); }

std::unique_ptr<Connection> Engine::connect(std::chrono::milliseconds limit) {
  const std::int64_t until = boot_ns() + std::chrono::nanoseconds{limit}.count();
  for (auto pause = std::chrono::milliseconds{first_pause};;) {
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
    std::this_thread::sleep_for(pause);
    pause = std::min<std::chrono::milliseconds>(pause * 2, longest_pause);
  }
}

void Engine::doubt() {
  const Lock lock{mutex_};
  doubt_ = true;
}

// --- the pool

std::unique_ptr<Connection> Engine::borrow() {
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

// A server that has crashed has ended them. A process that has no other connection yet, and asks
// for nothing but its first renewal, notices nowhere else.
void Engine::drop_stale() {
  const Lock lock{mutex_};
  const std::size_t stale = std::erase_if(idle_, [](const auto& one) { return one->stale(); });
  doubt_ = doubt_ || stale > 0;
}

// What has broken one has probably broken the idle ones too. Some breaks show only by a silence,
// and the next callers must not have to wait for that one after the other.
void Engine::give_back(std::unique_ptr<Connection> connection) {
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

// A connection goes back into the pool unless it broke.
class Engine::Borrowed {
 public:
  explicit Borrowed(Engine& engine) : engine_(engine), connection_(engine.borrow()) {}
  Borrowed(const Borrowed&) = delete;
  Borrowed& operator=(const Borrowed&) = delete;
  ~Borrowed() { engine_.give_back(std::move(connection_)); }
  Connection& operator*() { return *connection_; }
  Connection* operator->() { return connection_.get(); }
  void drop() { connection_.reset(); }
  void judge(const Failed& failed) {
    if (failed.broken() || is_unprepared(failed)) drop();
  }

 private:
  Engine& engine_;
  std::unique_ptr<Connection> connection_;
};

// --- calls

template <typename Call>
auto Engine::perform(bool again, const Call& call) {
  int conflicts = 0;
  for (const std::int64_t until = boot_ns() + std::chrono::nanoseconds{patience}.count();;) {
    std::int64_t backend = 0;
    std::string since;
    try {
      Borrowed connection{*this};
      try {
        round_trips_.fetch_add(1, std::memory_order_relaxed);
        return call(*connection,
                    Patience{.limit = target_->silence, .still_at_it = [this, &connection] {
                               return works(connection->backend(), connection->backend_start());
                             }});
      } catch (const Failed& failed) {
        backend = connection->backend();
        since = connection->backend_start();
        connection.judge(failed);
        throw;
      }
    } catch (const Failed& failed) {
      const bool free = again || !failed.sent();  // To be made again.
      if (free && is_cut_off(failed) && boot_ns() < until) continue;
      if ((is_conflict(failed) || is_unprepared(failed)) && ++conflicts < most_conflicts) continue;
      if (free && is_cut_off(failed)) throw StoreError(failed.what());
      if (is_cut_off(failed)) settle(backend, since);
      throw_for(failed);
    }
  }
}

Result Engine::call(const Statement& statement, const Params& params, bool again) {
  return perform(again, [&](Connection& connection, const Patience& how) {
    return connection.call(statement, params, how);
  });
}

// Whether a backend has something to do. Behind a pooler nobody knows whose it is by now.
bool Engine::works(std::int64_t backend, const std::string& since) noexcept {
  try {
    Connection connection{target_};
    if (connection.pooled()) return false;
    const Result state =
        connection.execute("SELECT state FROM pg_stat_get_activity(" + std::to_string(backend) +
                           ") WHERE backend_start='" + since + "'");
    return state.rows() > 0 && state.text(0, 0) == "active";
  } catch (...) {
    return false;
  }
}

// Of one that is not made again.
void Engine::throw_for(const Failed& failed) {
  if (!is_cut_off(failed)) throw StoreError(failed.what() + advice(failed));
  throw StoreError(
      std::string{failed.what()} +
          ": it is not known whether the transaction was committed: read before retrying",
      true);
}

// What was sent may still wait for its turn on the server. When its backend has gone, what has not
// happened does not happen any more.
void Engine::settle(std::int64_t backend, const std::string& since) noexcept {
  try {
    const std::unique_ptr<Connection> connection = connect(settle_limit);
    const std::string which = " FROM pg_stat_get_activity(" + std::to_string(backend) +
                              ") WHERE backend_start='" + since + "'";
    const std::int64_t until = boot_ns() + std::chrono::nanoseconds{settle_limit}.count();
    while (boot_ns() < until &&
           connection->execute("SELECT pg_terminate_backend(pid)" + which).rows() > 0) {
      std::this_thread::sleep_for(first_pause);
    }
  } catch (...) {  // NOLINT(bugprone-empty-catch)
    // It stays unknown, which is what is told.
  }
}

Result Engine::ask(const Statement& statement, const Params& params) {
  return call(statement, params, true);
}

Result Engine::ask(const std::string& sql) {
  Borrowed connection{*this};
  try {
    return connection->execute(sql);
  } catch (const Failed& failed) {
    if (failed.broken()) connection.drop();
    throw StoreError(failed.what() + advice(failed));
  }
}

// Who made the last two revisions is likely to make the next.
class Engine::Writing {
 public:
  explicit Writing(Engine& engine) : engine_(engine), first_(engine_.writing_.fetch_add(1) == 0) {}
  Writing(const Writing&) = delete;
  Writing& operator=(const Writing&) = delete;
  ~Writing() { engine_.writing_.fetch_sub(1); }
  [[nodiscard]] bool alone() const { return first_ && engine_.alone_.load(); }
  void made(Revision revision) {
    engine_.alone_.store(engine_.written_.exchange(revision.value) + 1 == revision.value);
  }

 private:
  Engine& engine_;
  const bool first_;
};

Answer Engine::make(const Txn& txn, bool alone) {
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
  const bool reads = txn.writes.empty();
  return answer_of(txn, call(reads ? look_ : change_, params_of(txn), reads));
}

std::optional<Revision> Engine::foreseen(const Txn& txn) {
  if (txn.guards.size() != 1 || txn.writes.front().kind != Write::Kind::append) {
    return std::nullopt;
  }
  const auto use = own_.use(txn.reads, txn.guards.front().range.from);
  if (!use || !use->present) return std::nullopt;
  if (std::ranges::find(use->empty, false) != use->empty.end()) return std::nullopt;
  return use->head.revision;
}

// Every revision is one more than the last, so who made this one knows which it was made on.
void Engine::own(const Txn& txn, const Answer& answer) {
  if (!answer.by_batch) {
    if (answer.outcome.committed) own_.forget();
    return;
  }
  const Revision revision = answer.outcome.revision;
  const Write& write = txn.writes.front();
  stores::OwnHead<Head>::Commit commit{.head = {revision}, .on = Revision{revision.value - 1}};
  if (write.kind == Write::Kind::append) {
    commit.keys.push_back(write.key + stamp(revision));
    commit.present = txn.guards.front().range.from;
  } else {
    commit.removed = write.key;
  }
  if (answer.nothing_there) commit.empty = txn.reads;
  own_.moved(std::move(commit));
}

Outcome Engine::apply(const Txn& txn) {
  check_size(txn);
  const std::int64_t sent = boot_ns();
  std::optional<Writing> writing;
  if (!txn.writes.empty()) writing.emplace(*this);
  Answer answer = make(txn, writing && writing->alone());
  if (answer.clock_ns != 0) clock_.saw(answer.clock_ns, sent, boot_ns());
  if (writing) own(txn, answer);
  if (writing && answer.outcome.committed) {
    writing->made(answer.outcome.revision);
    remember(txn, answer.outcome);
  }
  return std::move(answer.outcome);
}

Instant Engine::now() {
  if (!clock_.fresh(clock_lasts)) std::ignore = apply({});
  return clock_.now();
}

// --- removes that may have been lost

void Engine::remember(const Txn& txn, const Outcome& outcome) {
  const bool durable = is_durable(txn);
  const Lock lock{mutex_};
  if (durable) {
    // The log is written in order, and so are revisions.
    while (!removed_.empty() && removed_.front().revision < outcome.revision.value) {
      removed_.pop_front();
    }
    return;
  }
  for (const Write& write : txn.writes) {
    removed_.push_back({.key = write.key, .revision = outcome.revision.value});
  }
  while (removed_.size() > max_remembered) removed_.pop_front();
}

void Engine::remove_again(Connection& connection) {
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
