#include "tests/museum/network.hpp"

#include <algorithm>
#include <csignal>
#include <memory>
#include <optional>
#include <sstream>
#include <thread>
#include <utility>

#include "tenure/tenure.hpp"
#include "tests/museum/clock.hpp"
#include "tests/museum/museum.hpp"

namespace tenure::museum {
namespace {

using namespace std::chrono_literals;
using postgres::TestServer;

std::string answer(const std::string& command, Store& store, const Space& space) {
  if (command == "waiting") return std::to_string(waiting(space));
  if (command == "tickets") return std::to_string(space.inspect().size());
  if (command == "now") return std::to_string(store.now().time_since_epoch().count());
  Txn read;
  read.reads.push_back(Range::key(command.substr(command.find(' ') + 1)));
  const Outcome outcome = store.apply(read);
  return outcome.reads.front().empty() ? "none" : outcome.reads.front().front().value;
}

// The words of a text, each line of it.
std::vector<std::string> lines(const std::string& text) {
  std::istringstream in{text};
  std::vector<std::string> all;
  for (std::string line; std::getline(in, line);) all.push_back(line);
  return all;
}

}  // namespace

// What is not answered in five seconds is asked after: soon enough for a test, and not so soon that
// a busy machine takes a slow answer for a lost one.
std::string postgres_at(int port, const postgres::TestSchema& schema) {
  return "postgres://tenure@127.0.0.1:" + std::to_string(port) +
         "/postgres?sslmode=disable&gssencmode=disable&connect_timeout=10&tcp_user_timeout=5000"
         "&tenure_schema=" +
         schema.name();
}

Process::Body observer(std::string url) {
  return [url = std::move(url)](const Line& line) {
    std::shared_ptr<Store> seen;
    std::optional<Space> space;
    for (auto command = line.hear(); command; command = line.hear()) {
      try {
        if (!space) {
          seen = store(url);
          space.emplace(open(seen, {.label = "observer", .ttl = 1h}));
        }
        line.say(answer(*command, *seen, *space));
      } catch (const Error& error) {
        line.say(std::string{"error: "} + error.what());
      }
    }
  };
}

std::size_t number_of(const std::string& said) {
  if (said.find_first_not_of("0123456789") != std::string::npos) throw Error("it said: " + said);
  return std::stoul(said);
}

NetworkMuseum::NetworkMuseum() {
  share_boot_clock();
  if (GetParam() == Kind::postgres) {
    schema_ = std::make_unique<postgres::TestSchema>();
  } else {
    etcd_ = std::make_unique<etcd::Server>();
  }
}

int NetworkMuseum::port() const {
  if (schema_) return TestServer::instance().port();
  const std::string endpoint = etcd_->endpoint();
  return std::stoi(endpoint.substr(endpoint.rfind(':') + 1));
}

std::string NetworkMuseum::url_at(int port) const {
  if (schema_) return postgres_at(port, *schema_);
  return "etcd://127.0.0.1:" + std::to_string(port) + "/museum?timeout=20s";
}

std::string NetworkMuseum::opening(std::chrono::milliseconds ttl, int through) const {
  return "open " + url_at(through == 0 ? port() : through) + ' ' + std::to_string(ttl.count());
}

void NetworkMuseum::kill_server() {
  if (schema_) {
    TestServer::instance().stop(SIGKILL);
  } else {
    etcd_->kill();
  }
}

void NetworkMuseum::start_server() {
  if (schema_) {
    TestServer::instance().start();
  } else {
    etcd_->start();
    etcd_->await_ready();
  }
}

NetworkMuseum::Left NetworkMuseum::sessions() const {
  Left left;
  if (schema_) {
    const std::string rows = TestServer::instance().sql(
        "SELECT string_agg(id || ' ' || (extract(epoch FROM deadline - clock_timestamp()) * "
        "1000)::bigint, E'\\n') FROM " +
        schema_->name() + ".session");
    for (const std::string& row : lines(rows)) {
      left[row.substr(0, row.find(' '))] =
          std::chrono::milliseconds{std::stoll(row.substr(row.find(' ')))};
    }
    return left;
  }
  // "found 2 leases", and each on a line; then "… remaining(57s)", in whole seconds.
  std::vector<std::string> ids = lines(etcd_->etcdctl({"lease", "list"}));
  ids.erase(ids.begin());
  for (const std::string& id : ids) {
    const std::string said = etcd_->etcdctl({"lease", "timetolive", id});
    constexpr std::string_view before = "remaining(";
    const std::size_t at = said.find(before);
    if (at == std::string::npos) continue;  // It ended in between.
    left[id] = std::chrono::seconds{std::stoll(said.substr(at + before.size()))};
  }
  return left;
}

void NetworkMuseum::until_waiting(const Process& observing, std::size_t count) {
  while (number_of(observing.ask("waiting")) != count) std::this_thread::sleep_for(1ms);
}

std::string PostgresMuseum::sql(const std::string& text) const {
  std::string filled;
  for (const char c : text) filled += c == '@' ? schema.name() : std::string{c};
  return TestServer::instance().sql(filled);
}

std::string name_of(const ::testing::TestParamInfo<Kind>& tested) {
  return tested.param == Kind::postgres ? "Postgres" : "Etcd";
}

}  // namespace tenure::museum
