// How programs end, and what holders are told when their server is gone: on servers.
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <stop_token>
#include <string>
#include <thread>

#include "tenure/tenure.hpp"
#include "tests/kit/scratch.hpp"
#include "tests/museum/museum.hpp"
#include "tests/museum/network.hpp"

namespace tenure::museum {
namespace {

using namespace std::chrono_literals;
using kit::Proxy;

// ---- Programs that end ----

// Receives a URL and reports how many tickets and sessions are in the store, dead or alive. It
// opens no space, because that would remove the dead ones.
Process::Body entry_counter() {
  return [](const Line& line) {
    while (const auto url = line.hear()) {
      Txn read;
      read.reads = {Range::prefix("\x01"), Range::prefix("\x02"),
                    Range::prefix(std::string{session_prefix})};
      const Outcome outcome = store(*url)->apply(read);
      std::size_t count = 0;
      for (const auto& entries : outcome.reads) count += entries.size();
      line.say(std::to_string(count));
    }
  };
}

// The exit takes as long as the program's own: it waits for nothing.
void expect_nothing_left(const Process& counter, const std::string& url) {
  const std::string program =
      std::filesystem::read_symlink("/proc/self/exe").replace_filename("museum_leaving");
  for (int round = 0; round < 5; ++round) {
    for (const char* const way :
         {"hold", "with", "scoped", "closed", "statics", "outlives", "timed", "told"}) {
      Process leaving{kit::Program{.words = {program, url, way}}};
      ASSERT_EQ(leaving.exit_status(), 0) << way << ", round " << round;
      ASSERT_EQ(counter.ask(url), "0") << way << ", round " << round;
    }
  }
}

TEST_P(NetworkMuseum, M24_AProgramThatEndsLeavesNothing) {
  const Process counter{entry_counter()};
  expect_nothing_left(counter, url());
}

TEST(SqliteMuseum, M24_AProgramThatEndsLeavesNothing) {
  const Process counter{entry_counter()};
  const kit::TemporaryDirectory directory;
  expect_nothing_left(counter, "sqlite:" + (directory / "app.db").string());
}

// ---- Holders that are cut off ----

// The process runs on, and its own clock tells it: first notified, then the next grant, on one
// clock.
class CutOff : public NetworkMuseum {
 protected:
  void expect_told_first(const std::string& open_holder, const std::string& limit,
                         Proxy::Door door) {
    ASSERT_EQ(holder.ask(open_holder), "ok");
    ASSERT_EQ(next.ask(opening(1h)), "ok");
    if (!limit.empty()) {
      ASSERT_EQ(holder.ask(limit), "ok");
    }
    ASSERT_EQ(holder.ask("lock book"), "holds");
    network.door(door);
    if (door == Proxy::Door::shut) {
      network.cut();
    } else {
      network.swallow(Proxy::Way::to_server);
      network.swallow(Proxy::Way::to_client);
    }
    ASSERT_EQ(next.ask("lock book"), "holds");
    const std::string told = holder.ask("lost at");
    ASSERT_NE(told, "never") << "and the next one is in";
    EXPECT_LT(number_of(told), number_of(next.ask("granted at")));
  }

  const Process holder{lock_client()};
  const Process next{lock_client()};
  Proxy network{port()};
};

constexpr const char* three_seconds = "limit 3000000000";

TEST_P(CutOff, M03_ALimitedHoldIsToldBeforeTheNextGrant) {
  expect_told_first(opening(1h, network.port()), three_seconds, Proxy::Door::shut);
}

TEST_P(CutOff, M03_ALimitedHoldWithoutAnswersIsToldBeforeTheNextGrant) {
  expect_told_first(opening(1h, network.port()), three_seconds, Proxy::Door::silent);
}

TEST_P(CutOff, M03_AHoldWhoseLeaseEndsIsToldBeforeTheNextGrant) {
  expect_told_first(opening(4s, network.port()), {}, Proxy::Door::shut);
}

TEST_P(CutOff, M03_AHoldWhoseLeaseEndsWithoutAnswersIsToldBeforeTheNextGrant) {
  expect_told_first(opening(4s, network.port()), {}, Proxy::Door::silent);
}

// ---- A server that is gone ----

// The first lost(), a deadline that passes, a release, the end of the program: none of them ends
// the process, or makes it wait for the server longer than documented.
TEST_P(CutOff, M25_AProgramOutlivesItsServer) {
  Process alone{[](const Line& line) {
    const Space space = open(store(line.hear().value()), {.label = {}, .ttl = 1h});
    const Hold limited = space.max_hold(3s).lock(Path::of("book"));
    const std::stop_token told = limited.lost();
    const Hold other = space.lock(Path::of("film"));
    line.say("holds");
    static_cast<void>(line.hear());
    line.say(other.lost().stop_requested() ? "lost" : "kept");
    until([&] { return told.stop_requested(); });
    line.say("told");
  }};
  ASSERT_EQ(alone.ask(url_at(network.port())), "holds");
  network.door(Proxy::Door::shut);
  network.cut();
  EXPECT_EQ(alone.ask("go"), "kept") << "nothing is known of that one";
  EXPECT_EQ(alone.hear(), "told");
  EXPECT_EQ(alone.exit_status(), 0);
}

INSTANTIATE_TEST_SUITE_P(End, CutOff, ::testing::Values(Kind::postgres, Kind::etcd), name_of);

}  // namespace
}  // namespace tenure::museum
