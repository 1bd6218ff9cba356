// Lost messages: every call, with each of its questions or answers lost in turn, on PostgreSQL,
// behind PgBouncer and on etcd. A call may fail, but it never reports something wrong, no hold is
// lost, nothing is held twice and nothing is left behind.
//
// Each row of `calls` has the commands for a client, and the valid answers. src/space/stored has
// the same for spaces alone (stored_answers_test.cpp).
#include <gtest/gtest.h>
#include <poll.h>

#include <array>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "tests/kit/etcd.hpp"
#include "tests/kit/lock_client.hpp"
#include "tests/kit/patience.hpp"
#include "tests/kit/pgbouncer.hpp"
#include "tests/kit/postgres.hpp"
#include "tests/kit/proxy.hpp"

namespace tenure::faults {
namespace {

using kit::lock_client;
using kit::number_of;
using kit::Postgres;
using kit::Process;
using kit::Proxy;

enum class Server : std::uint8_t { postgres, pooler, etcd };
constexpr std::array<const char*, 3> server_names = {"Postgres", "PgBouncer", "Etcd"};

// What the near client does with `book`.
enum class Near : std::uint8_t {
  nothing,
  releases,    // It holds it, and releases it when the call waits or has failed.
  is_overdue,  // It holds it past its max_hold, and is stopped: the call removes its ticket.
};

struct Call {
  const char* name;
  std::vector<const char*> before;  // Commands.
  const char* command;              // OPEN: the command that opens the space.
  const char* answer;               // Unless it fails.
  bool holds = false;               // Before the call, and also if it fails.
  Near near = Near::nothing;
  std::size_t in_a_row = 1;  // At most so many losses.
};

constexpr const char* an_hour = "limit 3600000000000";

// NOLINTBEGIN(modernize-use-designated-initializers): rows of a table.
const std::vector<Call> calls = {
    {"Lock", {}, "lock book", "holds", false, Near::nothing, 2},
    {"LockThatWaits", {}, "lock book", "holds", false, Near::releases},
    {"LockAfterAnOverdueHolder", {}, "lock book", "holds", false, Near::is_overdue},
    {"LockWithMaxHold", {an_hour}, "lock book", "holds"},
    {"TryLock", {}, "try book", "holds"},
    {"LockAPermit", {}, "lock book:permits:1", "holds"},
    {"Renew", {an_hour, "lock book"}, "renew", "yes", true},
    {"Downgrade", {"lock book"}, "downgrade book:shared", "ok", true, Near::nothing, 2},
    {"Release", {"lock book"}, "release", "yes", false, Near::nothing, 2},
    {"Drop", {"lock book"}, "drop", "ok"},
    {"Evict", {"lock book", "token"}, "evict TOKEN", "yes"},
    {"EvictNow", {"lock book", "token"}, "evict TOKEN now", "yes"},
    {"Open", {"close"}, "OPEN", "ok"},
    {"Close", {}, "close", "ok"},
};
// NOLINTEND(modernize-use-designated-initializers)

class LostAnswers : public ::testing::TestWithParam<std::tuple<Call, Server>> {
 protected:
  LostAnswers() {
    EXPECT_EQ(near.ask("open " + url(port()) + " 3600000"), "ok");
    EXPECT_EQ(far.ask(opening()), "ok");
  }
  [[nodiscard]] static Server server() { return std::get<1>(GetParam()); }
  [[nodiscard]] int port() const {
    return server() == Server::etcd ? kit::Etcd::instance().port() : Postgres::instance().port();
  }
  [[nodiscard]] std::string url(int at) const {
    if (server() != Server::etcd) return schema->url_at(at);
    return "etcd://127.0.0.1:" + std::to_string(at) + '/' + prefix + "?timeout=2s";
  }
  [[nodiscard]] std::string opening() { return "open " + url(network.port()) + " 3600000"; }

  // One run, with the question or answer of this turn lost. False: the call has fewer turns.
  bool lose(std::size_t turn, Proxy::Way way, std::size_t in_a_row);
  [[nodiscard]] std::string make(const std::string& command) const;
  void expect_held_once() const;
  void expect_nothing_left() const;

  const std::unique_ptr<kit::Schema> schema =
      server() == Server::etcd ? nullptr : std::make_unique<kit::Schema>();
  const std::string prefix = kit::new_prefix();
  const Process near{lock_client()};
  const Process far{lock_client()};
  const std::unique_ptr<kit::PgBouncer> pooler =
      server() == Server::pooler ? std::make_unique<kit::PgBouncer>() : nullptr;
  Proxy network{pooler ? pooler->port() : port()};
  std::size_t newest = 0;  // Of all tokens.
};

void LostAnswers::expect_held_once() const {
  EXPECT_EQ(far.ask("is lost"), "no");
  EXPECT_EQ(near.ask("try book"), "taken");
  EXPECT_EQ(far.ask("release"), "yes");
}

// What could not be released at once is released soon.
void LostAnswers::expect_nothing_left() const {
  kit::until([this] { return near.ask("count book") == "0"; });
}

bool has_answered(const Process& client) {
  pollfd line{.fd = client.line().socket(), .events = POLLIN, .revents = 0};
  return ::poll(&line, 1, 0) > 0;
}

std::string LostAnswers::make(const std::string& command) const {
  const Near what = std::get<0>(GetParam()).near;
  if (what == Near::nothing) return far.ask(command);
  far.tell(command);
  if (what == Near::releases) {
    kit::until([this] { return near.ask("waiting") == "1" || has_answered(far); });
    EXPECT_EQ(near.ask("release"), "yes");
    return far.hear();
  }
  const std::string said = far.hear();
  near.go_on();
  static_cast<void>(near.ask("release"));
  EXPECT_EQ(near.ask(an_hour), "ok");
  return said;
}

bool LostAnswers::lose(std::size_t turn, Proxy::Way way, std::size_t in_a_row) {
  const Call& call = std::get<0>(GetParam());
  if (call.near == Near::is_overdue) {
    EXPECT_EQ(near.ask("limit 200000000"), "ok");
  }
  if (call.near != Near::nothing) {
    EXPECT_EQ(near.ask("lock book"), "holds");
  }
  if (call.near == Near::is_overdue) near.stop();
  std::string command = call.command;
  for (const char* const one : call.before) {
    const std::string said = far.ask(one);
    EXPECT_FALSE(said.starts_with("error")) << one << ": " << said;
    if (const auto at = command.find("TOKEN"); at != std::string::npos) {
      if (std::string{one} == "token") command.replace(at, 5, said);
    }
  }
  if (command == "OPEN") command = opening();
  network.lose(turn, way, in_a_row);
  const std::string said = make(command);
  const bool lost = network.has_lost();
  const bool failed = said.starts_with("error");
  EXPECT_TRUE(failed || said == call.answer) << said;
  for (const char* const wrong : {"evicted", "has ended the session", "duplicate key"}) {
    EXPECT_EQ(said.find(wrong), std::string::npos) << said;
  }
  if (call.holds || said == "holds") expect_held_once();
  if (command.starts_with("open") ? failed : command == "close") {
    EXPECT_EQ(far.ask(opening()), "ok");
  }
  if (failed && command.starts_with("evict")) static_cast<void>(far.ask("release"));
  expect_nothing_left();
  EXPECT_EQ(near.ask("try book"), "holds");
  if (HasFailure()) return lost;
  const std::size_t token = number_of(near.ask("token"));
  EXPECT_GT(token, newest);
  newest = token;
  EXPECT_EQ(near.ask("release"), "yes");
  return lost;
}

TEST_P(LostAnswers, AreNoHarm) {
  // The rest of a long call is like that of the others.
  static constexpr std::size_t most_turns = 12;
  const auto lose_each = [this](Proxy::Way way, std::size_t in_a_row) {
    for (std::size_t turn = 1; turn <= most_turns; ++turn) {
      SCOPED_TRACE((way == Proxy::Way::to_client ? "answer " : "question ") + std::to_string(turn) +
                   ", in a row: " + std::to_string(in_a_row));
      if (!lose(turn, way, in_a_row) || HasFailure()) return;
    }
  };
  for (std::size_t in_a_row = 1; in_a_row <= std::get<0>(GetParam()).in_a_row; ++in_a_row) {
    lose_each(Proxy::Way::to_client, in_a_row);
    if (!HasFailure()) lose_each(Proxy::Way::to_server, in_a_row);
    if (HasFailure()) return;
  }
}

std::string name_of(const ::testing::TestParamInfo<LostAnswers::ParamType>& tested) {
  const auto& [call, server] = tested.param;
  return std::string{call.name} + '_' + server_names.at(static_cast<std::size_t>(server));
}

INSTANTIATE_TEST_SUITE_P(Servers, LostAnswers,
                         ::testing::Combine(::testing::ValuesIn(calls),
                                            ::testing::Values(Server::postgres, Server::pooler,
                                                              Server::etcd)),
                         name_of);

}  // namespace
}  // namespace tenure::faults
