// What real processes do to each other: forks, deaths, stops, and turns at the gate.
#include <gtest/gtest.h>
#include <sched.h>
#include <sqlite3.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <random>
#include <string>
#include <thread>

#include "store/sqlite/sqlite_test.hpp"
#include "tests/kit/patience.hpp"

namespace tenure::sqlite {
namespace {

using kit::Line;
using kit::Process;
using kit::Shared;

WatchFor death_of(const std::string& session) {
  WatchFor what;
  what.session = session;
  return what;
}

struct SqliteProcess : ::testing::Test {
  Directory directory;
  std::filesystem::path path = directory / "app.db";

  // A process that opens a session, reports its id, and waits for a message.
  void hold_session(const Line& line) const {
    const auto store = open_sqlite(path);
    const auto session = store->open_session({});
    line.say(session->id());
    std::ignore = line.hear();
    ::_exit(0);  // With the session open.
  }
};

// A commit that was reported to a callback of apply_then exists, whenever the process is killed.
TEST_F(SqliteProcess, AKilledProcessHasMadeWhatItsCallbacksWereTold) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random{seed};
  for (int round = 0; round < 20; ++round) {
    const Shared<std::atomic<int>> told;
    Process writer{[&](const Line& line) {
      const auto store = open_sqlite(path);
      line.say("writes");
      for (int i = 0;; ++i) {
        Txn one = txn({}, {Write::put(std::to_string(round) + "/" + std::to_string(i), "")});
        one.durability = Durability::full;
        store->apply_then(std::move(one), [&](const Outcome& outcome, const std::exception_ptr&) {
          if (outcome.committed) ++*told;
        });
        kit::until([&] { return i - told->load() < 300; });
      }
    }};
    ASSERT_EQ(writer.hear(), "writes");
    const int enough = static_cast<int>(random() % 1000);
    kit::until([&] { return told->load() >= enough; });
    writer.kill();
    const int made = told->load();
    const auto store = open_sqlite(path, alone());
    const auto found = read(*store, Range::prefix(std::to_string(round) + "/"));
    EXPECT_GE(found.size(), static_cast<std::size_t>(made));
    for (int i = 0; i < made; ++i) {
      const std::string key = std::to_string(round) + "/" + std::to_string(i);
      ASSERT_NE(value_of(*store, key), "none") << key << " of " << made;
    }
  }
}

TEST_F(SqliteProcess, AKilledProcessEndsItsSession) {
  Process holder{[this](const Line& line) { hold_session(line); }};
  const std::string id = holder.hear();
  const auto store = open_sqlite(path, alone());  // Only the kernel reports a death to it.
  EXPECT_TRUE(store->alive(id));
  conformance::Bell bell;
  const auto watch = store->watch(death_of(id), bell.notice());
  await_first_round(*store);
  holder.kill();
  bell.wait();
  EXPECT_FALSE(store->alive(id));
  // For other processes to find.
  EXPECT_NE(value_of(*store, std::string{session_prefix} + id), "none");
}

// A thread that waits in the kernel for a death ends with its store, not with the session.
TEST_F(SqliteProcess, AStoreThatGoesLeavesNoThreadBehind) {
  const auto threads = [] {
    const std::filesystem::directory_iterator tasks{"/proc/self/task"};
    return std::distance(begin(tasks), end(tasks));
  };
  Process holder{[this](const Line& line) { hold_session(line); }};
  const std::string id = holder.hear();
  const auto before = threads();
  for (int round = 0; round < 3; ++round) {
    auto store = open_sqlite(path);
    conformance::Bell bell;
    auto first = store->watch(death_of(id), bell.notice());
    auto second = store->watch(death_of(id), bell.notice());
    EXPECT_GT(threads(), before + 1);  // One calls notices.
    first.reset();
    second.reset();
    store.reset();
    kit::until([&] { return threads() == before; });  // The kernel removes them a little later.
  }
  EXPECT_TRUE(open_sqlite(path)->alive(id));
  holder.kill();
}

TEST_F(SqliteProcess, AStoppedProcessIsAlive) {
  Process holder{[this](const Line& line) { hold_session(line); }};
  const std::string id = holder.hear();
  const auto store = open_sqlite(path);
  holder.stop();
  EXPECT_TRUE(store->alive(id));
  put(*store, "a");  // And it blocks nobody.
  holder.kill();
  EXPECT_FALSE(store->alive(id));
}

TEST_F(SqliteProcess, ADeathIsNoticedAcrossPidNamespaces) {
  const Process outer{[this](const Line& line) {
    if (::unshare(CLONE_NEWUSER | CLONE_NEWPID) != 0 && ::unshare(CLONE_NEWPID) != 0) {
      return line.say("not allowed");
    }
    // A bare fork: the first process of a namespace can't see its parent, which a Process needs.
    const int inner = ::fork();
    if (inner == 0) hold_session(line);
    ::waitpid(inner, nullptr, 0);
  }};
  const std::string id = outer.hear();
  if (id == "not allowed") GTEST_SKIP() << "may not create a namespace";
  const auto store = open_sqlite(path);
  conformance::Bell bell;
  const auto watch = store->watch(death_of(id), bell.notice());
  EXPECT_TRUE(store->alive(id));
  outer.tell("end");
  bell.wait();
  EXPECT_FALSE(store->alive(id));
}

TEST_F(SqliteProcess, AForkedChildHarmsNothing) {
  auto store = open_sqlite(path);
  auto session = store->open_session({});
  conformance::Bell bell;
  WatchFor what;
  what.ranges.push_back(Range::key("later"));
  what.after = put(*store, "a", "1");
  auto watch = store->watch(what, bell.notice());
  Children children;
  children.start(2, [&](std::size_t index) {
    const auto says = [](auto&& call) {
      try {
        call();
      } catch (const Error& error) {
        return std::string{error.what()}.find("opened before fork()") != std::string::npos;
      }
      return false;
    };
    if (!says([&] { put(*store, "b"); })) return 1;
    if (!says([&] { std::ignore = read(*store, Range::key("a")); })) return 2;
    if (!says([&] { std::ignore = store->open_session({}); })) return 3;
    if (!says([&] { std::ignore = store->watch({}, [] {}); })) return 4;
    if (!says([&] { std::ignore = store->alive("x"); })) return 5;
    bool posted = false;
    store->post({}, [&](const Outcome&, const auto& error) { posted = error != nullptr; });
    if (!posted) return 6;
    if (session->descriptor() != -1) return 7;
    if (index == 0) return 0;
    watch.reset();
    session.reset();
    store.reset();
    const auto own = open_sqlite(path);  // Opened again, everything works.
    put(*own, "child", "1");
    return value_of(*own, "a") == "1" ? 0 : 8;
  });
  EXPECT_EQ(children.exit_statuses(), (std::vector{0, 0}));
  EXPECT_TRUE(store->alive(session->id()));
  EXPECT_EQ(value_of(*store, "child"), "1");
  EXPECT_TRUE(store->apply(txn({session->guard()}, {Write::put("later", "")})).committed);
  bell.wait();
}

// Threads are working while the process forks, repeatedly.
TEST_F(SqliteProcess, ForksMayComeAtAnyTime) {
  const auto store = open_sqlite(path);
  std::atomic<bool> done = false;
  std::atomic<int> made = 0;
  std::jthread writer{[&] {
    while (!done) {
      store->apply(txn({}, {Write::append("w", "")}));
      ++made;
    }
  }};
  std::jthread reader{[&] {
    while (!done) std::ignore = read(*store, Range::prefix("w").first());
  }};
  for (int i = 0; i < 20; ++i) {
    Children children;
    children.start(1, [&](std::size_t) {
      const auto own = open_sqlite(path);
      own->apply(txn({}, {Write::append("c", "")}));
      return 0;
    });
    EXPECT_EQ(children.exit_statuses(), std::vector{0});
  }
  done = true;
  writer.join();
  reader.join();
  EXPECT_EQ(read(*store, Range::prefix("w")).size(), static_cast<std::size_t>(made));
  EXPECT_EQ(read(*store, Range::prefix("c")).size(), 20U);
}

// `sleep` stays behind with nothing of ours open, or with the session if it was passed on.
TEST_F(SqliteProcess, ASessionIsPassedOnOnlyOnPurpose) {
  for (const bool given : {false, true}) {
    Process parent{[this, given](const Line& line) {
      const auto store = open_sqlite(path);
      const auto session = store->open_session({});
      if (given) std::ignore = ::dup(session->descriptor());  // A dup has no close-on-exec.
      // A bare fork: a Process would end with its parent.
      const int sleeper = ::fork();
      if (sleeper == 0) {
        ::execlp("sleep", "sleep", "600", nullptr);
        ::_exit(1);
      }
      line.say(session->id() + std::to_string(sleeper));
      ::raise(SIGKILL);
    }};
    const std::string said = parent.hear();
    const std::string id = said.substr(0, 16);
    EXPECT_EQ(parent.exit_status(), 128 + SIGKILL);
    const auto store = open_sqlite(path);
    conformance::Bell bell;
    const auto watch = store->watch(death_of(id), bell.notice());
    if (given) {
      EXPECT_TRUE(store->alive(id));
      ::kill(std::stoi(said.substr(16)), SIGKILL);
    }
    bell.wait();
    EXPECT_FALSE(store->alive(id));
    if (!given) ::kill(std::stoi(said.substr(16)), SIGKILL);
  }
}

TEST_F(SqliteProcess, AWriterMayBeKilledAnywhere) {
  const unsigned seed = std::random_device{}();
  std::printf("seed %u\n", seed);
  std::fflush(stdout);
  std::mt19937 random{seed};
  Revision last;
  const Shared<std::atomic<int>> made;
  for (int round = 0; round < 15; ++round) {
    *made = 0;
    Children children;
    children.start(2, [&](std::size_t index) {
      const auto store = open_sqlite(path);
      const std::string key(1, static_cast<char>('a' + index));
      for (int i = 0;; ++i) {
        Txn both = txn({}, {Write::put(key + "1", std::to_string(i)),
                            Write::put(key + "2", std::to_string(i)), Write::append("t", "")});
        if (i % 50 == 0) both.durability = Durability::full;
        store->apply(both);
        ++*made;
      }
      return 0;
    });
    const auto count = std::uniform_int_distribution<int>{1, 200}(random);
    kit::until([&] { return *made >= count; });
    children.kill(0);
    children.kill(1);
    const auto store = open_sqlite(path);
    for (const char* key : {"a", "b"}) {
      EXPECT_EQ(value_of(*store, std::string{key} + "1"), value_of(*store, std::string{key} + "2"));
    }
    const Revision next = put(*store, "mine");
    EXPECT_GT(next, last);
    const auto newest = read(*store, Range::prefix("t").last());
    for (const Entry& entry : newest) EXPECT_GT(next, entry.created);
    last = next;
  }
  sqlite3* database = nullptr;
  sqlite3_open(path.c_str(), &database);
  std::string verdict;
  sqlite3_exec(
      database, "PRAGMA integrity_check",
      [](void* out, int, char** values, char**) {
        *static_cast<std::string*>(out) += values[0];
        return 0;
      },
      &verdict, nullptr);
  sqlite3_close(database);
  EXPECT_EQ(verdict, "ok");
}

TEST_F(SqliteProcess, NobodyStarvesAtTheGate) {
  constexpr std::size_t processes = 16;
  constexpr int each = 500;
  const Shared<std::atomic<long>> worst;
  const Shared<std::atomic<long>> left;
  *left = processes;
  Children children;
  children.start(processes, [&](std::size_t index) {
    const auto store = open_sqlite(path);
    // A process that is done continues as long as another is not: nobody runs alone at the end.
    for (int i = 0; left->load() > 0; ++i) {
      const auto begin = std::chrono::steady_clock::now();
      put(*store, "k" + std::to_string(index), std::to_string(i));
      const auto waited = std::chrono::duration_cast<std::chrono::microseconds>(
          std::chrono::steady_clock::now() - begin);
      for (long now = worst->load(); now < waited.count();) {
        if (worst->compare_exchange_weak(now, waited.count())) break;
      }
      if (i == each) left->fetch_sub(1);
    }
    return 0;
  });
  EXPECT_EQ(children.exit_statuses(), std::vector<int>(processes, 0));
  std::printf("16 processes: the longest wait of an apply was %ld us\n", worst->load());
}

// How often the log has restarted, as its header tells.
unsigned log_beginnings(const std::filesystem::path& log) {
  std::array<unsigned char, 16> header{};
  std::ifstream file{log, std::ios::binary};
  file.read(reinterpret_cast<char*>(header.data()), header.size());
  if (!file) return 0;
  unsigned count = 0;
  for (std::size_t i = 12; i < 16; ++i) count = count << 8U | header.at(i);
  return count;
}

// Although transactions leave their read mark where it is, and others write while it is moved.
TEST_F(SqliteProcess, TheLogBeginsAnewWhileManyReadAndWrite) {
  constexpr std::size_t processes = 4;
  const Shared<std::atomic<bool>> enough;
  Children children;
  children.start(processes, [&](std::size_t index) {
    const auto store = open_sqlite(path);
    const std::string key = "k" + std::to_string(index);
    for (int i = 0; !enough->load(); ++i) {
      put(*store, key, std::to_string(i));
      if (value_of(*store, key) != std::to_string(i)) return 1;
    }
    return 0;
  });
  kit::until([&] { return log_beginnings(directory / "app.db-wal") >= 5; });
  enough->store(true);
  EXPECT_EQ(children.exit_statuses(), std::vector<int>(processes, 0));
}

}  // namespace
}  // namespace tenure::sqlite
