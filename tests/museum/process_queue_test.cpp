// A queue of processes: some die, give up or are stopped; what the others notice of it.
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "store/sqlite/sqlite_store.hpp"
#include "tests/museum/museum.hpp"
#include "tests/museum/witness.hpp"

namespace tenure::museum {
namespace {

const Path book = Path::of("book");

Processes clients(std::size_t count, const Process::Body& client) {
  Processes made;
  for (std::size_t i = 0; i < count; ++i) made.push_back(std::make_unique<Process>(client));
  return made;
}
Processes clients(const File& file, std::size_t count) {
  return clients(count, lock_client(file.url()));
}

// Clients without the check once per second: only the kernel reports a death to them.
Processes unchecked_clients(const File& file, std::size_t count) {
  sqlite::SqliteOptions unchecked;
  unchecked.check_every = std::chrono::hours{24};
  return clients(count, lock_client(kit::OpenStore{[path = file.path(), unchecked] {
                   return sqlite::open_sqlite(path, unchecked);
                 }}));
}

// All request the same claim, one after the other; the first request waits first.
void line_up(const Space& space, const Processes& processes, std::size_t already = 0) {
  for (const auto& process : processes) {
    process->tell("lock book");
    until_waiting(space, ++already);
  }
}

std::vector<std::int64_t> pids(const Space& space) {
  std::vector<std::int64_t> found;
  for (const TicketInfo& info : space.inspect()) found.push_back(info.pid);
  return found;
}

// A waiter in the middle of the queue that is killed neither delays those behind it nor costs them
// their position.
TEST(Museum, M13_AKilledWaiterIsPassedOverAndTheOthersKeepTheirPlaces) {
  const File file;
  Processes line = clients(file, 5);
  Space space = open(file.url());
  Hold hold = space.lock(book);
  line_up(space, line);
  const auto mine = static_cast<std::int64_t>(::getpid());
  const std::vector<std::int64_t> left = {mine, line[0]->pid(), line[2]->pid(), line[4]->pid()};
  line[1]->kill();
  line[3]->kill();
  until_waiting(space, 3);
  EXPECT_EQ(pids(space), left);
  EXPECT_EQ(space.inspect().back().position, 3U);

  hold.release();
  for (const std::size_t next : {0U, 2U, 4U}) {
    EXPECT_EQ(line[next]->hear(), "holds");
    EXPECT_EQ(space.inspect().front().pid, line[next]->pid());
    EXPECT_EQ(line[next]->ask("release"), "yes");
  }
  EXPECT_TRUE(space.inspect().empty());
}

// The first waiter is dead, and no process has noticed it, when the lock becomes free.
TEST(Museum, S07_ADeadHeadOfTheLineDoesNotWedgeAFreeLock) {
  const File file;
  Processes line = clients(file, 4);
  Space space = open(file.url());
  Hold hold = space.lock(book);
  line_up(space, line);
  line[0]->stop();  // It can neither remove the dead ticket nor be notified.
  line[1]->stop();
  hold.release();  // Now the first one holds it, without knowing.
  line[0]->kill();
  line[1]->kill();
  EXPECT_EQ(line[2]->hear(), "holds");
  line[3]->kill();
  EXPECT_EQ(line[2]->ask("release"), "yes");
  EXPECT_TRUE(space.try_lock(book).has_value());
}

// No lease must expire and nothing is polled: the kernel reports the death. bench/ measures how
// long that takes.
TEST(Museum, M18_AfterTheHoldersDeathTheNextOneHasIt) {
  const File file;
  Processes line = unchecked_clients(file, 8);
  Space space = open(file.url());
  Hold first = space.lock(book);
  line_up(space, line);
  first.release();
  EXPECT_EQ(line[0]->hear(), "holds");
  for (std::size_t i = 1; i < line.size(); ++i) {
    line[i - 1]->kill();
    EXPECT_EQ(line[i]->hear(), "holds");
  }
  line.back()->kill();
  EXPECT_TRUE(space.try_lock(book).has_value());
  EXPECT_TRUE(space.inspect().empty());
}

// A process that starts only now waits for nothing but the sweep.
TEST(Museum, M18_ANewcomerAfterTheDeathOfAllWaitsForNobody) {
  const File file;
  {
    Processes line = clients(file, 3);
    Space space = open(file.url());
    EXPECT_EQ(line[0]->ask("lock book"), "holds");
    line[1]->tell("lock book");
    line[2]->tell("lock book:shared");
    until_waiting(space, 2);
  }  // All are killed.
  const Space space = open(file.url());
  EXPECT_TRUE(space.try_lock(book).has_value());
}

// Like Ctrl-C: the wait ends, and the waiters behind it are where they would have been without it.
TEST(Museum, S17_AWaiterThatIsInterruptedLeavesNothing) {
  const File file;
  Processes line = clients(file, 3);
  Space space = open(file.url());
  Hold hold = space.lock(book);
  line_up(space, line);
  line[1]->signal(SIGINT);
  EXPECT_EQ(line[1]->hear(), "gave up");
  EXPECT_EQ(waiting(space), 2U) << "gone when the call returns";
  line[0]->signal(SIGINT);
  EXPECT_EQ(line[0]->hear(), "gave up");
  hold.release();
  EXPECT_EQ(line[2]->hear(), "holds");
  EXPECT_EQ(line[0]->ask("lock film"), "holds") << "whoever gave up may ask again";
  EXPECT_EQ(space.inspect().size(), 2U);
}

TEST(Museum, M33_ReadingAgainBehindAWriterOfAnotherProcessIsADeadlockAtOnce) {
  const File file;
  const Process writer{lock_client(file.url())};
  Space space = open(file.url());
  const Locker reader = space.as("reader");
  Hold reading = reader.lock(book.shared());
  writer.tell("lock book/3 writer");
  until_waiting(space, 1);
  try {
    static_cast<void>(reader.lock(book.shared()));
    FAIL() << "granted";
  } catch (const Deadlock& error) {
    const std::string said = error.what();
    EXPECT_NE(said.find("reader (book:shared"), std::string::npos) << said;
    EXPECT_NE(said.find("waits for writer (book/3"), std::string::npos) << said;
  }
  EXPECT_EQ(space.inspect().size(), 2U) << "the refused request is gone, the others are not";
  EXPECT_TRUE(reading.release());
  EXPECT_EQ(writer.hear(), "holds");
}

TEST(Museum, S09_ProcessesThatDisagreeOnALimitAreTold) {
  const File file;
  const Process other{lock_client(file.url())};
  Space space = open(file.url());
  EXPECT_EQ(other.ask("lock api:permits:3 other"), "holds");
  for (const std::uint32_t limit : {2U, 4U}) {
    try {
      static_cast<void>(space.as("me").lock(Path::of("api").permits(limit)));
      FAIL() << "granted";
    } catch (const LimitMismatch& error) {
      const std::string said = error.what();
      EXPECT_NE(said.find("me asks for limit " + std::to_string(limit)), std::string::npos) << said;
      EXPECT_NE(said.find("other (ticket"), std::string::npos) << said;
      EXPECT_NE(said.find("has limit 3"), std::string::npos) << said;
    }
  }
  EXPECT_EQ(space.inspect().size(), 1U);
  EXPECT_EQ(other.ask("release"), "yes");
  EXPECT_TRUE(space.try_lock(Path::of("api").permits(2)).has_value()) << "nobody disagrees now";
}

// ---- Who is woken ----

// How often the threads of a process were switched out, voluntarily or not.
long switches(const Process& process) {
  long sum = 0;
  const std::string tasks = "/proc/" + std::to_string(process.pid()) + "/task";
  for (const auto& task : std::filesystem::directory_iterator{tasks}) {
    std::ifstream status{task.path() / "status"};
    for (std::string line; std::getline(status, line);) {
      if (line.find("ctxt_switches:") == std::string::npos) continue;
      sum += std::stol(line.substr(line.find(':') + 1));
    }
  }
  return sum;
}

// 600 tickets in front of the queue are released, one by one. Only the last release concerns the
// waiter. Meanwhile the waiter may only check its files once per second.
TEST(Museum, M16_AReleaseWakesNobodyWhoseBlockerItWasNot) {
  constexpr std::size_t releases = 600;
  const File file;
  Processes line = clients(file, 6);
  Space space = open(file.url());
  std::vector<Hold> readers;
  for (std::size_t i = 0; i < releases; ++i) readers.push_back(space.lock(book.shared()));
  line_up(space, line);

  std::vector<long> before;
  for (const auto& process : line) before.push_back(switches(*process));
  while (readers.size() > 1) {
    EXPECT_TRUE(readers.front().release());
    readers.erase(readers.begin());
  }
  std::cout << "switches of each waiting process during " << releases << " releases:";
  for (std::size_t i = 0; i < line.size(); ++i) {
    const long woken = switches(*line[i]) - before[i];
    std::cout << ' ' << woken;
    EXPECT_LT(woken, static_cast<long>(releases) / 4) << "process " << i;
  }
  std::cout << '\n';
  EXPECT_EQ(waiting(space), line.size());
  readers.clear();
  for (const auto& process : line) {
    EXPECT_EQ(process->hear(), "holds");
    EXPECT_EQ(process->ask("release"), "yes");
  }
}

}  // namespace
}  // namespace tenure::museum
