#include "tests/museum/network.hpp"

#include <algorithm>
#include <csignal>
#include <memory>
#include <optional>
#include <sstream>
#include <thread>
#include <utility>

#include "tenure/tenure.hpp"
#include "tests/kit/clock.hpp"
#include "tests/museum/museum.hpp"

namespace tenure::museum {
namespace {

using namespace std::chrono_literals;
using kit::Etcd;
using kit::Postgres;

// The words of a text, each line of it.
std::vector<std::string> lines(const std::string& text) {
  std::istringstream in{text};
  std::vector<std::string> all;
  for (std::string line; std::getline(in, line);) all.push_back(line);
  return all;
}

// "found 2 leases", followed by one per line.
std::vector<std::string> leases() {
  std::vector<std::string> ids = lines(Etcd::instance().etcdctl({"lease", "list"}));
  ids.erase(ids.begin());
  return ids;
}

// After five seconds without an answer the client asks the server: soon enough for a test, and not
// so soon that a busy machine takes a slow answer for a lost one.
std::string postgres_at(int port, const kit::Schema& schema) {
  return schema.url_at(port, "&connect_timeout=10&tcp_user_timeout=5000");
}

}  // namespace

NetworkMuseum::NetworkMuseum() {
  kit::share_boot_clock();
  if (GetParam() == Kind::postgres) {
    schema_ = std::make_unique<kit::Schema>();
    return;
  }
  prefix_ = kit::new_prefix();
  // Leases that clients of other cases left would be counted as well.
  for (const std::string& id : leases()) Etcd::instance().etcdctl({"lease", "revoke", id});
}

int NetworkMuseum::port() const {
  return schema_ ? Postgres::instance().port() : Etcd::instance().port();
}

std::string NetworkMuseum::url_at(int port) const {
  if (schema_) return postgres_at(port, *schema_);
  return "etcd://127.0.0.1:" + std::to_string(port) + '/' + prefix_ + "?timeout=20s";
}

std::string NetworkMuseum::opening(std::chrono::milliseconds ttl, int through) const {
  return "open " + url_at(through == 0 ? port() : through) + ' ' + std::to_string(ttl.count());
}

kit::Server& NetworkMuseum::server() const {
  if (schema_) return Postgres::instance();
  return Etcd::instance();
}

NetworkMuseum::Left NetworkMuseum::sessions() const {
  Left left;
  if (schema_) {
    const std::string rows = Postgres::instance().sql(
        "SELECT string_agg(id || ' ' || (extract(epoch FROM deadline - clock_timestamp()) * "
        "1000)::bigint, E'\\n') FROM " +
        schema_->name() + ".session");
    for (const std::string& row : lines(rows)) {
      left[row.substr(0, row.find(' '))] =
          std::chrono::milliseconds{std::stoll(row.substr(row.find(' ')))};
    }
    return left;
  }
  // "… remaining(57s)", in whole seconds.
  for (const std::string& id : leases()) {
    const std::string said = Etcd::instance().etcdctl({"lease", "timetolive", id});
    constexpr std::string_view before = "remaining(";
    const std::size_t at = said.find(before);
    if (at == std::string::npos) continue;  // The lease ended in between.
    left[id] = std::chrono::seconds{std::stoll(said.substr(at + before.size()))};
  }
  return left;
}

void NetworkMuseum::until_waiting(const Process& observing, std::size_t count) {
  const auto limit = std::chrono::steady_clock::now() + 60s;
  for (;;) {
    const std::size_t waiting = number_of(observing.ask("waiting"));
    if (waiting == count) return;
    if (std::chrono::steady_clock::now() > limit) {
      throw Error(std::to_string(waiting) + " wait instead of " + std::to_string(count) + ", of " +
                  observing.ask("count /") + " tickets");
    }
    std::this_thread::sleep_for(1ms);
  }
}

std::string PostgresMuseum::sql(const std::string& text) const {
  std::string filled;
  for (const char c : text) filled += c == '@' ? schema.name() : std::string{c};
  return Postgres::instance().sql(filled);
}

std::string name_of(const ::testing::TestParamInfo<Kind>& tested) {
  return tested.param == Kind::postgres ? "Postgres" : "Etcd";
}

}  // namespace tenure::museum
