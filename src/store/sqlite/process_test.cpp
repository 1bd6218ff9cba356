// What real processes do to each other: forks, deaths, stops, and turns at the gate.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sqlite3.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <memory>
#include <random>
#include <string>
#include <thread>

#include "store/sqlite/sqlite_test.hpp"

namespace tenure::sqlite {
namespace {

// One line of text a message, so that tests wait for states and not for time.
class Pipe {
 public:
  Pipe() { EXPECT_EQ(::pipe2(ends_.data(), O_CLOEXEC), 0); }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  ~Pipe() {
    ::close(ends_[0]);
    ::close(ends_[1]);
  }
  void say(const std::string& line) const {
    const std::string all = line + "\n";
    std::ignore = ::write(ends_[1], all.data(), all.size());
  }
  [[nodiscard]] std::string hear() const {
    std::string line;
    for (char c = 0; ::read(ends_[0], &c, 1) == 1 && c != '\n';) line += c;
    return line;
  }
  [[nodiscard]] int out() const { return ends_[0]; }

 private:
  std::array<int, 2> ends_{};
};

WatchFor death_of(const std::string& session) {
  WatchFor what;
  what.session = session;
  return what;
}

struct SqliteProcess : ::testing::Test {
  Directory directory;
  std::filesystem::path path = directory / "app.db";
  Pipe up;
  Pipe down;

  // A process with a session, which says its id and waits.
  void start_holder(Children& children) const {
    children.start(1, [this](std::size_t) {
      const auto store = open_sqlite(path);
      const auto session = store->open_session({});
      up.say(session->id());
      std::ignore = down.hear();
      return 0;
    });
  }
};

TEST_F(SqliteProcess, AKilledProcessEndsItsSession) {
  Children children;
  start_holder(children);
  const std::string id = up.hear();
  const auto store = open_sqlite(path);
  EXPECT_TRUE(store->alive(id));
  conformance::Bell bell;
  const auto watch = store->watch(death_of(id), bell.notice());
  children.kill(0);
  bell.wait();
  EXPECT_FALSE(store->alive(id));
  EXPECT_NE(value_of(*store, std::string{session_prefix} + id), "none");  // For others to find.
}

TEST_F(SqliteProcess, AStoppedProcessIsAlive) {
  const int child = ::fork();
  if (child == 0) {
    const auto store = open_sqlite(path);
    const auto session = store->open_session({});
    up.say(session->id());
    std::ignore = down.hear();
    ::_exit(0);
  }
  const std::string id = up.hear();
  const auto store = open_sqlite(path);
  ::kill(child, SIGSTOP);
  int status = 0;
  ::waitpid(child, &status, WUNTRACED);
  EXPECT_TRUE(WIFSTOPPED(status));
  EXPECT_TRUE(store->alive(id));
  put(*store, "a");  // And is in nobody's way.
  ::kill(child, SIGKILL);
  ::waitpid(child, &status, 0);
  EXPECT_FALSE(store->alive(id));
}

TEST_F(SqliteProcess, ADeathIsNoticedAcrossPidNamespaces) {
  Children children;
  children.start(1, [this](std::size_t) {
    if (::unshare(CLONE_NEWUSER | CLONE_NEWPID) != 0 && ::unshare(CLONE_NEWPID) != 0) {
      up.say("");
      return 0;
    }
    const int inner = ::fork();  // The first process of the namespace.
    if (inner == 0) {
      const auto store = open_sqlite(path);
      const auto session = store->open_session({});
      up.say(session->id());
      std::ignore = down.hear();
      ::_exit(0);  // With the session open.
    }
    int status = 0;
    ::waitpid(inner, &status, 0);
    return 0;
  });
  const std::string id = up.hear();
  if (id.empty()) GTEST_SKIP() << "may not make a namespace";
  const auto store = open_sqlite(path);
  conformance::Bell bell;
  const auto watch = store->watch(death_of(id), bell.notice());
  EXPECT_TRUE(store->alive(id));
  down.say("");
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
    const auto own = open_sqlite(path);  // Anew, all is well.
    put(*own, "child", "1");
    return value_of(*own, "a") == "1" ? 0 : 8;
  });
  EXPECT_EQ(children.exit_statuses(), (std::vector{0, 0}));
  EXPECT_TRUE(store->alive(session->id()));
  EXPECT_EQ(value_of(*store, "child"), "1");
  EXPECT_TRUE(store->apply(txn({session->guard()}, {Write::put("later", "")})).committed);
  bell.wait();
}

// Threads are at work while the process forks, over and over.
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

// `cat` stays behind with nothing of ours open, or with the session where it was given.
TEST_F(SqliteProcess, ASessionIsPassedOnOnlyOnPurpose) {
  for (const bool given : {false, true}) {
    const Pipe input;
    const int parent = ::fork();
    if (parent == 0) {
      const auto store = open_sqlite(path);
      const auto session = store->open_session({});
      if (given) std::ignore = ::dup(session->descriptor());  // A dup has no close-on-exec.
      const int cat = ::fork();
      if (cat == 0) {
        ::dup2(input.out(), 0);
        ::dup2(::open("/dev/null", O_WRONLY | O_CLOEXEC), STDOUT_FILENO);
        ::execlp("cat", "cat", nullptr);
        ::_exit(1);
      }
      up.say(session->id() + std::to_string(cat));
      ::raise(SIGKILL);
    }
    const std::string said = up.hear();
    const std::string id = said.substr(0, 16);
    int status = 0;
    ::waitpid(parent, &status, 0);
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
  for (int round = 0; round < 15; ++round) {
    Children children;
    children.start(2, [&](std::size_t index) {
      const auto store = open_sqlite(path);
      const std::string key(1, static_cast<char>('a' + index));
      for (int i = 0;; ++i) {
        Txn both = txn({}, {Write::put(key + "1", std::to_string(i)),
                            Write::put(key + "2", std::to_string(i)), Write::append("t", "")});
        if (i % 50 == 0) both.durability = Durability::full;
        store->apply(both);
        up.say("");
      }
      return 0;
    });
    const auto count = std::uniform_int_distribution<int>{1, 200}(random);
    for (int i = 0; i < count; ++i) std::ignore = up.hear();
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
  auto* const worst = static_cast<std::atomic<long>*>(
      ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  auto* const left = worst + 1;
  left->store(processes);
  Children children;
  children.start(processes, [&](std::size_t index) {
    const auto store = open_sqlite(path);
    // Whoever is done goes on for as long as somebody is not: no one gets a free way at the end.
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
  ::munmap(worst, 4096);
}

// Though most transactions leave their mark in the log where it is (file_system.hpp).
TEST_F(SqliteProcess, TheLogStaysShortWhileManyReadAndWrite) {
  constexpr std::size_t processes = 4;
  constexpr int each = 5'000;
  Children children;
  children.start(processes, [&](std::size_t index) {
    const auto store = open_sqlite(path);
    const std::string key = "k" + std::to_string(index);
    for (int i = 0; i < each; ++i) {
      put(*store, key, std::to_string(i));
      if (value_of(*store, key) != std::to_string(i)) return 1;
    }
    up.say("done");
    std::ignore = down.hear();  // The last to close would remove the log.
    return 0;
  });
  for (std::size_t i = 0; i < processes; ++i) EXPECT_EQ(up.hear(), "done");
  const auto log = std::filesystem::file_size(directory / "app.db-wal");
  for (std::size_t i = 0; i < processes; ++i) down.say("end");
  EXPECT_EQ(children.exit_statuses(), std::vector<int>(processes, 0));
  EXPECT_LT(log, processes * each * 1024 / 4) << "as long as if it had been used once or twice";
}

}  // namespace
}  // namespace tenure::sqlite
