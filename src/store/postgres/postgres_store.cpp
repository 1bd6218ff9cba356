#include "store/postgres/postgres_store.hpp"

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <stop_token>
#include <tuple>
#include <utility>

#include "base/fork.hpp"
#include "base/mutex.hpp"
#include "store/common/leased_session.hpp"
#include "store/common/post_queue.hpp"
#include "store/postgres/executor.hpp"
#include "store/postgres/sessions.hpp"
#include "store/postgres/statements.hpp"
#include "store/postgres/watches.hpp"
#include "store/session_entry.hpp"

namespace tenure::postgres {
namespace {

constexpr int most_attempts = 3;
constexpr std::size_t most_together = 512;

}  // namespace

class PostgresStore::HeldSession final : public stores::LeasedSession<PostgresStore> {
 public:
  using LeasedSession::LeasedSession;
  HeldSession(const HeldSession&) = delete;
  HeldSession& operator=(const HeldSession&) = delete;

  // Deletes the row first: a process that is notified of the removed entry then finds the session
  // dead.
  ~HeldSession() override {
    if (store_->forked()) return;
    store_->parts_->sessions->end(lease_);
    try {
      store_->end_session(key());
    } catch (...) {  // NOLINT(bugprone-empty-catch)
      // A process that finds the entry sees that its session is dead.
    }
  }
};

PostgresStore::PostgresStore(Target target) : parts_(std::make_unique<Parts>()) {
  auto executor = std::make_shared<Executor>(std::move(target));
  parts_->sessions = std::make_shared<Sessions>(executor);
  auto watches = std::make_shared<Watches>(executor, parts_->sessions);
  auto posted = stores::PostQueue::of([executor, watches](const Txn& txn) {
    Outcome outcome = executor->apply(txn);
    if (outcome.committed && !txn.writes.empty()) watches->wrote(txn, outcome.revision);
    return outcome;
  });
  auto durable = std::make_shared<stores::PostQueue>(
      most_together, [executor, watches](std::span<stores::Posting> postings) {
        executor->apply_all(postings);
        for (const stores::Posting& one : postings) {
          if (!one.error && one.outcome.committed) watches->wrote(one.txn, one.outcome.revision);
        }
      });
  set_queues({.posted = std::move(posted), .durable = std::move(durable)});
  parts_->watches = std::move(watches);
  parts_->executor = std::move(executor);
}

PostgresStore::~PostgresStore() {
  if (forked()) {
    std::ignore = parts_.release();  // They belong to the parent: threads and connections.
    return;
  }
  stop_queues();
  parts_->watches->stop();
  parts_->sessions->stop();
}

Outcome PostgresStore::apply(const Txn& txn) { return apply(txn, false); }

void PostgresStore::end_session(const std::string& entry) {
  std::ignore = apply({.guards = {}, .writes = {Write::remove(entry)}, .reads = {}}, true);
}

Outcome PostgresStore::apply(const Txn& txn, bool own_session) {
  check_forked();
  wait_for_posts();
  Outcome outcome = parts_->executor->apply(txn, own_session);
  if (outcome.committed && !txn.writes.empty()) parts_->watches->wrote(txn, outcome.revision);
  return outcome;
}

void PostgresStore::sync() { parts_->executor->flush(); }

std::unique_ptr<Watch> PostgresStore::watch(WatchFor what, Notice notice) {
  check_forked();
  return parts_->watches->add(std::move(what), std::move(notice), shared_from_this());
}

std::unique_ptr<Session> PostgresStore::open_session(const SessionOptions& options) {
  check_forked();
  auto session =
      std::make_unique<HeldSession>(shared_from_this(), parts_->sessions->open(options.ttl));
  const Txn entry{
      .guards = {},
      .writes = {Write::put(session->key(), stores::session_entry(options.label, now()))},
      .reads = {},
      .durability = Durability::full};
  for (int attempt = 1;; ++attempt) {
    try {
      apply(entry);
      return session;
    } catch (const StoreError& error) {  // A second put has the same effect.
      if (!error.unknown() || attempt == most_attempts) throw;
    }
  }
}

bool PostgresStore::alive(std::string_view session) {
  check_forked();
  return parts_->watches->lives(session) || parts_->sessions->left(session).count() > 0;
}

Instant PostgresStore::now() {
  check_forked();
  return parts_->executor->now();
}

Instant PostgresStore::latest_now() noexcept { return parts_->executor->latest_now(); }

std::vector<Store::Fact> PostgresStore::facts() {
  check_forked();
  Executor& executor = *parts_->executor;
  const Result result = executor.ask(executor.target().in_schema(
      "SELECT current_setting('server_version'), current_user, current_database(),"
      "(SELECT value FROM @.meta WHERE name='version'), (SELECT max(newest) FROM @.head),"
      "(SELECT count(*) FROM @.session),"
      "(SELECT count(*) FROM @.session WHERE deadline <= clock_timestamp()),"
      "current_setting('fsync'), current_setting('synchronous_commit'),"
      "current_setting('server_encoding'),"
      "(SELECT coalesce(max(CASE WHEN ssl THEN version END), 'no') FROM pg_stat_ssl "
      "WHERE pid = pg_backend_pid()),"
      "(SELECT boot_val FROM pg_settings WHERE name='default_transaction_isolation'),"
      "(SELECT coalesce(max(value), '1') FROM @.meta WHERE name='routines')"));
  std::vector<Fact> facts;
  const auto add = [&facts](std::string name, std::string value) {
    facts.push_back({.name = std::move(name), .value = std::move(value)});
  };
  const std::uint64_t revision = std::stoull(result.text(0, 4));
  add("kind", "postgres");
  add("server", executor.target().shown);
  add("user", result.text(0, 1));
  add("database", result.text(0, 2));
  add("postgresql", result.text(0, 0));
  add("schema name", executor.target().schema);
  add("schema", result.text(0, 3));
  add("routines", result.text(0, 12));
  add("epoch", std::to_string(revision >> count_bits));
  add("revision", std::to_string(revision));
  add("sessions", result.text(0, 5));
  add("sessions dead", result.text(0, 6));
  add("fsync", result.text(0, 7));
  add("synchronous_commit", result.text(0, 8));
  add("tls", result.text(0, 10));
  add("pooler", executor.pooled() ? "yes" : "no");
  add("watch", parts_->watches->state());
  add("notices", std::to_string(parts_->watches->heard()));
  return facts;
}

// --- opening

namespace {

struct Registry {
  const std::uint64_t generation = base::fork_generation();
  base::Mutex mutex;
  std::map<std::string, std::weak_ptr<PostgresStore>, std::less<>> stores TENURE_GUARDED_BY(mutex);

  // Never destroyed: a store may outlive every static object. A forked child gets its own registry:
  // a thread of its parent may have held the mutex, and never releases it in the child.
  static Registry& instance() {
    static std::atomic<Registry*> newest = new Registry;
    Registry* known = newest.load();
    if (known->generation == base::fork_generation()) return *known;
    auto own = std::make_unique<Registry>();
    return newest.compare_exchange_strong(known, own.get()) ? *own.release() : *known;
  }
};

}  // namespace

std::shared_ptr<Store> open_postgres(std::string_view url, bool alone) {
  Target target = parse_url(url);
  if (alone) return std::make_shared<PostgresStore>(std::move(target));
  Registry& registry = Registry::instance();
  const base::Mutex::Scoped lock{registry.mutex};
  if (const auto at = registry.stores.find(url); at != registry.stores.end()) {
    if (auto store = at->second.lock(); store && !store->forked()) return store;
  }
  auto store = std::make_shared<PostgresStore>(std::move(target));
  std::erase_if(registry.stores, [](const auto& one) { return one.second.expired(); });
  registry.stores.insert_or_assign(std::string{url}, store);
  return store;
}

}  // namespace tenure::postgres
