// Many processes at once, with witnesses inside the lock that do not trust it.
#include <gtest/gtest.h>
#include <sqlite3.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <iostream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/museum/museum.hpp"
#include "tests/museum/witness.hpp"

namespace tenure::museum {
namespace {

const Path book = Path::of("book");

constexpr std::size_t crowd = 8;
// Runs `body` in each process, with its index; the process ends with it.
Processes start(std::size_t count, const std::function<void(std::size_t, const Line&)>& body) {
  Processes made;
  for (std::size_t i = 0; i < count; ++i) {
    made.push_back(std::make_unique<Process>([&, i](const Line& line) { body(i, line); }));
  }
  return made;
}

void check(bool right, const char* what) {
  if (!right) throw Error(what);
}

// No two processes are ever inside together, and tokens rise from one to the next.
TEST(Museum, S26_EightProcessesAreNeverTwoInside) {
  constexpr int rounds = 200;
  const File file;
  Witness witness{file.beside("inside")};
  const auto began = std::chrono::steady_clock::now();
  Processes processes = start(crowd, [&](std::size_t, const Line&) {
    Space space = open(file.url());
    for (int i = 0; i < rounds; ++i) {
      Hold hold = space.lock(book);
      check(witness.enter(hold.token()), "another one was in, or a token went back");
      std::this_thread::yield();
      check(witness.leave(), "another one came in");
      check(hold.release(), "what was held was lost");
    }
  });
  expect_success(processes);
  EXPECT_EQ(witness.entered(), crowd * rounds);
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - began;
  std::cout << crowd * rounds << " turns of " << crowd << " processes in " << took.count()
            << " ms\n";
}

// A former holder closes its space and exits while the next one holds the lock: its exit does not
// affect the next holder.
TEST(Museum, S26_AFormerHoldersExitTouchesNobody) {
  constexpr int rounds = 10;
  const File file;
  Witness witness{file.beside("inside")};
  Processes processes = start(crowd, [&](std::size_t, const Line&) {
    for (int i = 0; i < rounds; ++i) {
      Space space = open(file.url());
      Hold hold = space.lock(book);
      check(witness.enter(hold.token()), "another one was in");
      check(witness.leave(), "another one came in");
      if (i % 2 == 0) check(hold.release(), "what was held was lost");
    }
    std::exit(0);  // NOLINT(concurrency-mt-unsafe): exit handlers and all.
  });
  expect_success(processes);
  EXPECT_EQ(witness.entered(), crowd * rounds);
  const Space space = open(file.url());
  EXPECT_TRUE(space.try_lock(book).has_value());
}

// A holder is killed inside, and all waiters find it dead at the same moment.
TEST(Museum, M27_OfManyWhoFindTheLockDeadOneGetsIt) {
  constexpr std::size_t breakers = 4;
  constexpr std::uint64_t deaths = 25;
  const File file;
  Witness witness{file.beside("inside")};
  const Processes contenders = start(breakers, [&](std::size_t, const Line& line) {
    Space space = open(file.url());
    while (line.hear().has_value()) {
      const Hold hold = space.lock(book);
      check(witness.enter(hold.token()), "two broke the lock");
      std::this_thread::yield();
      check(witness.leave(), "two broke the lock");
      line.say("done");
    }
  });
  // The victims are forked while the contenders are at it; this process opens nothing.
  for (std::uint64_t i = 0; i < deaths; ++i) {
    Process victim{[&](const Line& line) {
      Space space = open(file.url());
      const Hold hold = space.lock(book);
      check(witness.enter(hold.token()), "it was broken while it was held");
      line.say("holds");
      until([&] { return waiting(space) == breakers; });
      line.say("they wait");
      ::pause();
    }};
    ASSERT_EQ(victim.hear(), "holds");
    for (const auto& contender : contenders) contender->tell("go");
    ASSERT_EQ(victim.hear(), "they wait");
    victim.stop();  // It stays inside, and until it dies no other process gets in.
    witness.died();
    victim.kill();
    for (const auto& contender : contenders) ASSERT_EQ(contender->hear(), "done");
  }
  EXPECT_EQ(witness.entered(), deaths * (breakers + 1));
}

// A counter that is read in one apply and written in another: a lost update means that the lock
// failed.
TEST(Museum, S06_IncrementsOfEightProcessesAreAllThere) {
  constexpr int increments = 50;
  const File file;
  Processes processes = start(crowd, [&](std::size_t, const Line&) {
    const std::shared_ptr<Store> files = store(file.url());
    Space space = open(files);
    for (int i = 0; i < increments; ++i) {
      const Hold hold = space.lock(book);
      Txn read;
      read.reads.push_back(Range::key("counter"));
      const auto found = files->apply(read).reads.front();
      const int value = found.empty() ? 0 : std::stoi(found.front().value);
      Txn write;
      write.guards = hold.guard();
      write.writes.push_back(Write::put("counter", std::to_string(value + 1)));
      check(files->apply(write).committed, "the hold was lost");
    }
  });
  expect_success(processes);
  Txn read;
  read.reads.push_back(Range::key("counter"));
  EXPECT_EQ(store(file.url())->apply(read).reads.front().at(0).value,
            std::to_string(crowd * increments));
}

// One counter for the space: even processes that do not conflict never get the same number.
TEST(Museum, M19_TokensOfAllProcessesAreOneOrder) {
  constexpr std::uint64_t each = 100;
  const File file;
  const Shared<std::array<std::uint64_t, crowd * each>> tokens;
  Processes processes = start(crowd, [&](std::size_t number, const Line&) {
    Space space = open(file.url());
    Token last;
    for (std::size_t i = 0; i < each; ++i) {
      const Hold hold = space.lock(Path::of("own", number, i));
      check(hold.token() > last, "a token went back");
      last = hold.token();
      (*tokens)[number * each + i] = last.value;
    }
  });
  expect_success(processes);
  std::ranges::sort(*tokens);
  EXPECT_EQ(std::ranges::adjacent_find(*tokens), tokens->end());
}

// ---- SQLite's own lock ----

void run(sqlite3* database, const char* sql) {
  check(sqlite3_exec(database, sql, nullptr, nullptr, nullptr) == SQLITE_OK, sql);
}

// A shell in the middle of a transaction does not queue with us. Requests wait for it, and none
// gets a "database is busy" error, whether it reads, writes, or writes what it read.
TEST(Museum, M28_AForeignWriterDelaysRequestsAndFailsNone) {
  const File file;
  static_cast<void>(store(file.url()));  // Creates the file.
  const Process shell{[&](const Line& line) {
    sqlite3* database = nullptr;
    check(sqlite3_open(file.path().c_str(), &database) == SQLITE_OK, "open");
    while (line.hear().has_value()) {
      run(database, "BEGIN IMMEDIATE; INSERT INTO tenure_meta VALUES('museum', 1)");
      line.say("in a transaction");
      static_cast<void>(line.hear());
      run(database, "ROLLBACK");
      line.say("out of it");
    }
  }};
  const Process other{lock_client(file.url())};
  Space space = open(file.url());
  for (int i = 0; i < 5; ++i) {
    ASSERT_EQ(shell.ask("begin"), "in a transaction");
    other.tell("lock book");
    EXPECT_TRUE(space.inspect().empty()) << "readers are not held up";
    ASSERT_EQ(shell.ask("end"), "out of it");
    ASSERT_EQ(other.hear(), "holds");
    ASSERT_EQ(other.ask("release"), "yes");
  }
}

// Eight processes read and then write at once, in the way in which SQLite fails in spite of a
// timeout.
TEST(Museum, M28_ProcessesThatReadAndWriteAtOnceAreNeverTurnedAway) {
  constexpr int rounds = 40;
  const File file;
  Processes processes = start(crowd, [&](std::size_t number, const Line&) {
    Space space = open(file.url());
    const Path own = Path::of("own", number);
    for (int i = 0; i < rounds; ++i) {
      const Hold mine = space.lock({own, book.shared()});
      static_cast<void>(space.try_lock(book));
      static_cast<void>(space.inspect(own));
      const Hold permit = space.lock(Path::of("api").permits(2));
    }
  });
  expect_success(processes);
}

}  // namespace
}  // namespace tenure::museum
