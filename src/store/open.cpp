// Finds out which store a URL names.
#include <algorithm>
#include <memory>
#include <string>

#include "store/driver.hpp"
#include "store/etcd/address.hpp"
#include "store/module.hpp"
#include "tenure/memory_store.hpp"
#include "tenure/store.hpp"

#pragma weak tenure_driver_sqlite
#pragma weak tenure_driver_postgres

namespace tenure {
namespace {

constexpr std::string_view known =
    "'memory:', 'sqlite:PATH', 'postgres://HOST/DATABASE' or 'etcd://HOST:PORT,…/PREFIX'";
constexpr std::string_view memory_by_root = "memory:by-root";
constexpr std::string_view sqlite_scheme = "sqlite:";

bool is_sqlite_url(std::string_view url) noexcept { return url.starts_with(sqlite_scheme); }

bool is_postgres_url(std::string_view url) noexcept {
  return url.starts_with("postgres://") || url.starts_with("postgresql://");
}

// The driver of a component, or an error that says how to link it.
const stores::Driver& linked(const stores::Driver* driver, const std::string& component) {
  if (driver != nullptr) return *driver;
  throw StoreError("this program was linked without Tenure's component '" + component +
                   "', so it can't open '" + component + ":' URLs: link tenure::" + component +
                   " (CMake: find_package(tenure COMPONENTS " + component + ")) or add tenure-" +
                   component + " to its pkg-config packages");
}

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
  if (is_sqlite_url(url)) return std::string{url};
  try {
    if (is_postgres_url(url) && &tenure_driver_postgres != nullptr) {
      return tenure_driver_postgres.shown(url);
    }
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
  return url == "memory:" || url == memory_by_root || is_sqlite_url(url) || is_postgres_url(url) ||
         etcd::is_address(url);
}

std::shared_ptr<Store> store(std::string_view url) {
  if (url == "memory:") return std::make_shared<MemoryStore>();
  if (url == memory_by_root) {
    return std::make_shared<MemoryStore>(MemoryStore::Clock::real, MemoryStore::Order::by_root);
  }
  if (is_sqlite_url(url)) return linked(&tenure_driver_sqlite, "sqlite").open(url);
  if (is_postgres_url(url)) return linked(&tenure_driver_postgres, "postgres").open(url);
  if (etcd::is_address(url)) return open_etcd(url);
  throw Error("'" + shown_url(url) + "' is not the URL of a store: use " + std::string{known});
}

void repair(std::string_view url) {
  if (etcd::is_address(url)) {  // The URL may contain a password.
    throw Error("an etcd store has no epoch to renew: only 'sqlite:PATH' has one");
  }
  if (!is_sqlite_url(url)) {
    throw Error("'" + shown_url(url) + "' has no epoch to renew: only 'sqlite:PATH' has one");
  }
  linked(&tenure_driver_sqlite, "sqlite").repair(url);
}

}  // namespace tenure
