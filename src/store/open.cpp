// Finds out which store a URL names.
#include <algorithm>
#include <memory>
#include <string>
#include <tuple>

#include "store/etcd/address.hpp"
#include "store/module.hpp"
#include "store/postgres/postgres_store.hpp"
#include "store/postgres/url.hpp"
#include "store/sqlite/sqlite_store.hpp"
#include "tenure/memory_store.hpp"
#include "tenure/store.hpp"

namespace tenure {
namespace {

constexpr std::string_view known =
    "'memory:', 'sqlite:PATH', 'postgres://HOST/DATABASE' or 'etcd://HOST:PORT,…/PREFIX'";
constexpr std::string_view memory_by_root = "memory:by-root";
constexpr std::string_view sqlite_scheme = "sqlite:";

std::shared_ptr<Store> open_etcd(std::string_view url) {
  // Reports an invalid URL even if the module is not installed.
  static_cast<void>(etcd::parse_address(url));
  return stores::load_module("tenure_etcd", "Tenure's module for etcd",
                             stores::module_directories())
      .open(url);
}

// Whether this is a list of hosts with ports, and not a user and a password whose host is missing.
bool names_hosts(std::string_view hosts) {
  while (!hosts.empty()) {
    const std::string_view one = hosts.substr(0, hosts.find(','));
    hosts.remove_prefix(std::min(hosts.size(), one.size() + 1));
    const std::size_t bracket = one.rfind(']');
    const std::size_t colon = one.find(':', bracket == std::string_view::npos ? 0 : bracket);
    if (colon == std::string_view::npos) continue;
    if (one.find_first_not_of("0123456789", colon + 1) != std::string_view::npos) return false;
  }
  return true;
}

// A URL without "://" is a short name, or something like postgres:me:password@host or password=…
// host=….
std::string without_server(std::string_view url) {
  if (url.find_first_of("@=?") == std::string_view::npos) return std::string{url};
  const std::size_t colon = url.find(':');
  return colon < url.find_first_of("@=?") ? std::string{url.substr(0, colon + 1)} + "..." : "...";
}

}  // namespace

// A URL that can't be parsed may be a misspelt server URL, and any part of it may be the password.
std::string shown_url(std::string_view url) {
  if (url.starts_with(sqlite_scheme)) return std::string{url};
  try {
    if (postgres::is_postgres_url(url)) return postgres::parse_url(url).shown;
  } catch (const Error&) {  // NOLINT(bugprone-empty-catch): whoever opens it is told.
  }
  const std::size_t start = url.find("://");
  if (start == std::string_view::npos) return without_server(url);
  const std::string scheme{url.substr(0, start + 3)};
  const std::string_view rest = url.substr(start + 3);
  const std::size_t query = rest.find('?');
  const std::string_view head = rest.substr(0, query);
  // It is not known whether the last '@' ends a password that contains a '?', or is part of a
  // parameter.
  const std::size_t at = rest.rfind('@');
  if (at != std::string_view::npos && at > head.size()) return scheme + "...";
  if (at != std::string_view::npos) return scheme + "..." + std::string{head.substr(at)};
  return scheme + (names_hosts(head.substr(0, head.find('/'))) ? std::string{head} : "...");
}

bool is_store(std::string_view url) noexcept {
  return url == "memory:" || url == memory_by_root || url.starts_with(sqlite_scheme) ||
         postgres::is_postgres_url(url) || etcd::is_address(url);
}

std::shared_ptr<Store> store(std::string_view url) {
  if (url == "memory:") return std::make_shared<MemoryStore>();
  if (url == memory_by_root) {
    return std::make_shared<MemoryStore>(MemoryStore::Clock::real, MemoryStore::Order::by_root);
  }
  if (url.starts_with(sqlite_scheme)) {
    return sqlite::open_sqlite(url.substr(sqlite_scheme.size()));
  }
  if (postgres::is_postgres_url(url)) return postgres::open_postgres(url);
  if (etcd::is_address(url)) return open_etcd(url);
  throw Error("'" + shown_url(url) + "' is not the URL of a store: use " + std::string{known});
}

void repair(std::string_view url) {
  if (etcd::is_address(url)) {  // The URL may contain a password.
    throw Error("an etcd store has no epoch to renew: only 'sqlite:PATH' has one");
  }
  if (!url.starts_with(sqlite_scheme)) {
    throw Error("'" + shown_url(url) + "' has no epoch to renew: only 'sqlite:PATH' has one");
  }
  sqlite::SqliteOptions options;
  options.new_epoch = true;
  std::ignore = sqlite::open_sqlite(url.substr(sqlite_scheme.size()), options);
}

}  // namespace tenure
