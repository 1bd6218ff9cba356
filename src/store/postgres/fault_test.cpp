// Cut connections, killed backends and servers: nothing that was acknowledged is lost, no revision
// is used twice, and waiters continue.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "store/conformance.hpp"
#include "store/postgres/connection.hpp"
#include "store/postgres/postgres_store.hpp"
#include "store/postgres/statements.hpp"
#include "tests/kit/patience.hpp"
#include "tests/kit/postgres.hpp"

namespace tenure::postgres {
namespace {

using kit::Postgres;
using kit::Schema;

using conformance::Bell;
using conformance::txn;

// Every backend of a store.
void cut_all() {
  Postgres::instance().sql(
      "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity "
      "WHERE application_name='tenure'");
}

// As the kernel's OOM killer does: the server then restarts by itself, with recovery.
void kill_a_backend() {
  for (std::string pid; pid.empty();) {
    try {
      pid = Postgres::instance().sql(
          "SELECT pid FROM pg_stat_activity WHERE application_name='tenure' LIMIT 1");
    } catch (const std::runtime_error&) {
      continue;  // It has not recovered from the last one yet.
    }
    if (!pid.empty()) ::kill(std::stoi(pid), SIGKILL);
  }
}

std::vector<Entry> read(Store& store, Range range) {
  return store.apply(txn({}, {}, {std::move(range)})).reads.at(0);
}

void await_listening(Store& store) {
  kit::until([&] {
    return std::ranges::any_of(store.facts(), [](const Store::Fact& fact) {
      return fact.name == "watch" && fact.value == "LISTEN";
    });
  });
}

WatchFor change_of(std::string key, Revision after) {
  WatchFor what;
  what.ranges.push_back(Range::key(std::move(key)));
  what.after = after;
  return what;
}

TEST(PostgresFaults, AnIdleConnectionThatWasCutIsNoError) {
  const Schema schema;
  const auto store = open_postgres(schema.url());
  for (int i = 0; i < 5; ++i) {
    store->apply(txn({}, {Write::append("log/", "")}));
    cut_all();
    // Its end must have reached us: a backend that is gone is not in this list.
    kit::until([] {
      return Postgres::instance().sql(
                 "SELECT count(*) FROM pg_stat_activity WHERE "
                 "application_name='tenure'") == "0";
    });
  }
  EXPECT_EQ(read(*store, Range::prefix("log/")).size(), 5U);
}

// The rest of an answer that is an error must not stay in the connection: it would accept no other
// call.
TEST(PostgresFaults, AConnectionWorksAfterAnError) {
  const Schema schema;
  const auto store = open_postgres(schema.url(), true);
  const auto rename = [&](const std::string& from, const std::string& to) {
    Postgres::instance().sql("ALTER TABLE " + schema.name() + '.' + from + " RENAME TO " + to);
  };
  for (int i = 0; i < 3; ++i) {
    rename("entry", "away");
    EXPECT_THROW(store->apply(txn({}, {Write::append("log/", "")})), StoreError);
    EXPECT_THROW(read(*store, Range::prefix("log/")), StoreError);
    rename("away", "entry");
    store->apply(txn({}, {Write::append("log/", "")}));
  }
  EXPECT_EQ(read(*store, Range::prefix("log/")).size(), 3U);
}

// Writers that record their outcomes while `trouble` runs.
struct History {
  std::mutex mutex;
  std::map<std::uint64_t, std::string> told;  // What each revision wrote.
  std::set<std::string> unknown;
  bool twice = false;
};

void write_on(Store& store, int writer, const std::atomic<bool>& done, History& history) {
  for (int i = 0; !done; ++i) {
    const std::string value = std::to_string(writer) + "/" + std::to_string(i);
    // Alternately as a batch and as a call of change().
    std::vector<Guard> guards;
    if (i % 2 == 0) guards.push_back(Guard::present("here"));
    try {
      const Outcome outcome = store.apply(txn(guards, {Write::append("log/", value)}));
      EXPECT_TRUE(outcome.committed);
      const std::lock_guard lock{history.mutex};
      history.twice = !history.told.emplace(outcome.revision.value, value).second || history.twice;
    } catch (const StoreError& error) {
      const std::lock_guard lock{history.mutex};
      if (error.unknown()) history.unknown.insert(value);
    }
  }
}

// The same with apply_then, twenty at a time. Each callback is called once, whatever the outcome.
void write_on_then(Store& store, const std::atomic<bool>& done, History& history) {
  std::atomic<int> under_way = 0;
  for (int i = 0; !done; ++i) {
    kit::until([&] { return under_way < 20; });
    ++under_way;
    const std::string value = "then/" + std::to_string(i);
    store.apply_then(
        txn({Guard::present("here")}, {Write::append("log/", value)}),
        [&, value, calls = 0](const Outcome& outcome, const std::exception_ptr& error) mutable {
          EXPECT_EQ(++calls, 1);
          try {
            if (error) std::rethrow_exception(error);
            EXPECT_TRUE(outcome.committed);
            const std::lock_guard lock{history.mutex};
            history.twice =
                !history.told.emplace(outcome.revision.value, value).second || history.twice;
          } catch (const StoreError& why) {
            const std::lock_guard lock{history.mutex};
            if (why.unknown()) history.unknown.insert(value);
          }
          --under_way;
        });
  }
  kit::until([&] { return under_way == 0; });
}

// Everything that was acknowledged exists once, at its revision; and nothing else except unknown
// commits.
void expect_whole(Store& store, const History& history) {
  EXPECT_FALSE(history.twice);
  std::map<std::uint64_t, std::string> found;
  for (const Entry& entry : read(store, Range::prefix("log/"))) {
    EXPECT_EQ(stamp_of(entry.key), entry.created);
    found[entry.created.value] = entry.value;
  }
  for (const auto& [revision, value] : history.told) {
    EXPECT_EQ(found[revision], value);
    found.erase(revision);
  }
  for (const auto& [revision, value] : found) EXPECT_TRUE(history.unknown.contains(value)) << value;
}

template <typename Trouble>
void try_with(const Trouble& trouble, int writers_at_once = 4) {
  const Schema schema;
  open_postgres(schema.url(), true)->apply(txn({}, {Write::put("here", "")}));
  History history;
  std::atomic<bool> done = false;
  {
    std::vector<std::jthread> writers;
    const std::unique_ptr<std::atomic<bool>, void (*)(std::atomic<bool>*)> end{
        &done, [](std::atomic<bool>* over) { over->store(true); }};
    for (int i = 0; i < writers_at_once; ++i) {
      writers.emplace_back([&, i, mine = open_postgres(schema.url(), i % 2 == 0)] {
        write_on(*mine, i, done, history);
      });
    }
    if (writers_at_once > 1) {
      writers.emplace_back(
          [&, mine = open_postgres(schema.url(), true)] { write_on_then(*mine, done, history); });
    }
    for (int round = 1; round <= 3; ++round) {
      const auto enough = [&] {
        const std::lock_guard lock{history.mutex};
        return history.told.size() >= static_cast<std::size_t>(round) * 50;
      };
      kit::until(enough);
      trouble();
    }
  }
  std::shared_ptr<Store> store;
  kit::until([&] {
    try {
      store = open_postgres(schema.url(), true);
    } catch (const Error&) {  // The server still recovers.
    }
    return store != nullptr;
  });
  expect_whole(*store, history);
  const Revision next = store->apply(txn({}, {Write::put("next", "")})).revision;
  EXPECT_GT(next.value, history.told.rbegin()->first);
}

TEST(PostgresFaults, CutConnectionsLoseNothing) { try_with(cut_all); }

TEST(PostgresFaults, AKilledBackendLosesNothing) { try_with(kill_a_backend); }

TEST(PostgresFaults, AKilledServerLosesNothing) {
  try_with([] {
    Postgres::instance().kill(SIGKILL);
    Postgres::instance().restart();
  });
}

// A sole writer waits for the disk in its one commit, but makes two commits if the server's
// synchronous_commit is off, as it is in the other tests.
TEST(PostgresFaults, AKilledServerLosesNothingOfALoneWriter) {
  Postgres::instance().sql("ALTER ROLE tenure SET synchronous_commit=on");
  EXPECT_EQ(Postgres::instance().sql("SHOW synchronous_commit"), "on");
  try_with(
      [] {
        Postgres::instance().kill(SIGKILL);
        Postgres::instance().restart();
      },
      1);
  Postgres::instance().sql("ALTER ROLE tenure RESET synchronous_commit");
}

TEST(PostgresFaults, AnImmediateShutdownLosesNothing) {
  try_with([] {
    Postgres::instance().kill(SIGQUIT);
    Postgres::instance().restart();
  });
}

// Relaxed commits may be lost, but their revisions must not be used again, and removed entries must
// not come back.
TEST(PostgresFaults, ACrashRaisesTheEpochAndRemovesStayMade) {
  const Schema schema;
  const auto store = open_postgres(schema.url());
  const auto epoch = [&] { return store->apply({}).revision.value >> 30U; };
  const std::uint64_t before = epoch();
  Revision last;
  for (int i = 0; i < 20; ++i) {
    const Revision made = store->apply(txn({}, {Write::append("t/", "")})).revision;
    const std::string key = "t/" + stamp(made);
    std::vector<Guard> guards;
    if (i % 2 == 0) guards.push_back(Guard::present(key));  // Alternately as a batch.
    last = store->apply(txn(guards, {Write::remove(key)})).revision;
  }
  Postgres::instance().kill(SIGKILL);
  Postgres::instance().restart();
  EXPECT_TRUE(read(*store, Range::prefix("t/")).empty());
  EXPECT_GT(store->apply(txn({}, {Write::append("t/", "")})).revision, last);
  EXPECT_GT(epoch(), before);
  Postgres::instance().kill(SIGINT);  // An orderly shutdown keeps it.
  Postgres::instance().restart();
  const std::uint64_t crashed = epoch();
  store->apply(txn({}, {Write::append("t/", "")}));
  EXPECT_EQ(epoch(), crashed);
}

// This process only renews its session from now on, and the session must not expire meanwhile,
// however slow the machine is.
TEST(PostgresFaults, AnIdleProcessMakesItsLostRemovesAgain) {
  const Schema schema;
  const auto store = open_postgres(schema.url(), true);
  const auto session = store->open_session({.label = "", .ttl = std::chrono::seconds{20}});
  const Revision made = store->apply(txn({}, {Write::put("released", "")})).revision;
  store->apply(txn({}, {Write::remove("released")}));
  // The state after a crash that lost the remove.
  const std::string revision = std::to_string(made.value);
  Postgres::instance().sql("INSERT INTO " + schema.name() + ".entry VALUES ('released', '', " +
                           revision + ", " + revision + ")");
  cut_all();
  kit::until([&] {
    return Postgres::instance().sql("SELECT count(*) FROM " + schema.name() +
                                    ".entry WHERE key='released'") == "0";
  });
}

TEST(PostgresFaults, AWatchIsToldAfterAReconnect) {
  const Schema schema;
  const auto store = open_postgres(schema.url(), true);
  const auto other = open_postgres(schema.url(), true);
  for (int i = 0; i < 3; ++i) {
    Bell bell;
    const Revision now = store->apply({}).revision;
    const auto watch = store->watch(change_of("a", now), bell.notice());
    await_listening(*store);
    cut_all();
    bell.wait();  // A reconnect notifies all watches.
  }
  // And it receives changes again.
  Bell bell;
  const auto watch = store->watch(change_of("a", store->apply({}).revision), bell.notice());
  other->apply(txn({}, {Write::put("a", "")}));
  bell.wait();
}

TEST(PostgresFaults, WaitersGoOnAfterARestart) {
  const Schema schema;
  const auto store = open_postgres(schema.url(), true);
  const auto other = open_postgres(schema.url(), true);
  other->apply(txn({}, {Write::put("lock", "")}));
  Bell bell;
  auto watch = store->watch(change_of("lock", store->apply({}).revision), bell.notice());
  await_listening(*store);
  Postgres::instance().kill(SIGQUIT);
  Postgres::instance().restart();
  other->apply(txn({}, {Write::remove("lock")}));
  bell.wait();
  kit::until([&] { return read(*store, Range::key("lock")).empty(); });
}

TEST(PostgresFaults, ASessionOutlivesARestartOfTheServer) {
  const Schema schema;
  const auto store = open_postgres(schema.url(), true);
  const auto session = store->open_session({.label = "", .ttl = std::chrono::seconds{60}});
  Postgres::instance().kill(SIGKILL);
  Postgres::instance().restart();
  EXPECT_TRUE(store->alive(session->id()));
  EXPECT_FALSE(session->lost().stop_requested());
  EXPECT_TRUE(store->apply(txn({session->guard()}, {Write::put("a", "")})).committed);
}

TEST(PostgresFaults, ASessionThatCantBeRenewedIsLost) {
  const Schema schema;
  const auto store = open_postgres(schema.url(), true);
  auto session = store->open_session({.label = "", .ttl = std::chrono::seconds{2}});
  Bell lost;
  const std::stop_callback callback{session->lost(), [&] { lost.ring(); }};
  Postgres::instance().kill(SIGQUIT);
  lost.wait();
  Postgres::instance().restart();
  kit::until([&] { return !store->alive(session->id()); });
  // Until some process removes it.
  EXPECT_TRUE(store->apply(txn({session->guard()}, {})).committed);
}

TEST(PostgresFaults, ASessionThatWasFoundDeadIsLost) {
  const Schema schema;
  const auto store = open_postgres(schema.url(), true);
  const auto session = store->open_session({.label = "", .ttl = std::chrono::seconds{3}});
  Bell lost;
  const std::stop_callback callback{session->lost(), [&] { lost.ring(); }};
  Postgres::instance().sql("UPDATE " + schema.name() + ".session SET deadline='2000-01-01'");
  EXPECT_FALSE(store->alive(session->id()));
  lost.wait();
  EXPECT_FALSE(store->alive(session->id()));
}

// No process has found it dead yet, but it is too late all the same.
TEST(PostgresFaults, ASessionPastItsDeadlineIsNotRenewed) {
  const Schema schema;
  const auto store = open_postgres(schema.url(), true);
  const auto session = store->open_session({.label = "", .ttl = std::chrono::seconds{3}});
  const std::string table = schema.name() + ".session";
  Postgres::instance().sql("UPDATE " + table + " SET deadline='2000-01-01'");
  kit::until([&] {
    return session->lost().stop_requested() ||
           Postgres::instance().sql("SELECT count(*) FROM " + table +
                                    " WHERE deadline > '2000-01-01'") == "1";
  });
  EXPECT_FALSE(store->alive(session->id())) << "it was renewed";
}

// A writer that finds no listener does not notify. A process that begins to listen meanwhile waits
// for the commit, and then reads the newest revision.
TEST(PostgresFaults, AWatchSeesACommitThatWasNotNotified) {
  const Schema schema;
  const auto store = open_postgres(schema.url(), true);
  const Revision before = store->apply(txn({}, {Write::put("other", "")})).revision;
  Connection writer{std::make_shared<const Target>(parse_url(schema.url()))};
  const std::string next = std::to_string(before.value + revision_step);
  const auto in_schema = [&schema](const std::string& sql) {
    std::string text;
    for (const char c : sql) text += c == '@' ? schema.name() : std::string{c};
    return text;
  };
  writer.execute(in_schema("BEGIN; UPDATE @.head SET newest=" + next + " WHERE bucket=0" +
                           "; INSERT INTO @.entry VALUES ('lock', '', " + next + ", " + next +
                           "); SELECT pg_advisory_xact_lock(" + std::to_string(watching_class) +
                           ", ('@'::regnamespace::oid::bigint * 256)::int)"));
  Bell bell;
  const auto watch = store->watch(change_of("lock", before), bell.notice());
  kit::until([] {
    return Postgres::instance().sql(
               "SELECT count(*) FROM pg_stat_activity WHERE wait_event='advisory'") == "1";
  });
  writer.execute("COMMIT");
  bell.wait();
}

}  // namespace
}  // namespace tenure::postgres
