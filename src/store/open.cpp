// Which store a URL names.
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
constexpr std::string_view sqlite_scheme = "sqlite:";

std::shared_ptr<Store> open_etcd(std::string_view url) {
  // What is wrong with a URL is said whether or not the module is there.
  static_cast<void>(etcd::parse_address(url));
  return stores::load_module("tenure_etcd", "Tenure's module for etcd",
                             stores::module_directories())
      .open(url);
}

}  // namespace

// One that can't be read may be a misspelt URL of a server: without user and password.
std::string shown_url(std::string_view url) {
  try {
    if (postgres::is_postgres_url(url)) return postgres::parse_url(url).shown;
  } catch (const Error&) {  // NOLINT(bugprone-empty-catch): whoever opens it is told.
  }
  const std::size_t start = url.find("://");
  if (start == std::string_view::npos) return std::string{url};
  const std::size_t at = url.rfind('@');
  const bool user = at != std::string_view::npos && at > start;
  const std::string_view rest = url.substr(user ? at : start + 3);
  return std::string{url.substr(0, start + 3)} + (user ? "..." : "") +
         std::string{rest.substr(0, rest.find('?'))};
}

bool is_store(std::string_view url) noexcept {
  return url == "memory:" || url.starts_with(sqlite_scheme) || postgres::is_postgres_url(url) ||
         etcd::is_address(url);
}

std::shared_ptr<Store> store(std::string_view url) {
  if (url == "memory:") return std::make_shared<MemoryStore>();
  if (url.starts_with(sqlite_scheme)) {
    return sqlite::open_sqlite(url.substr(sqlite_scheme.size()));
  }
  if (postgres::is_postgres_url(url)) return postgres::open_postgres(url);
  if (etcd::is_address(url)) return open_etcd(url);
  throw Error("'" + shown_url(url) + "' is not the URL of a store: use " + std::string{known});
}

void repair(std::string_view url) {
  if (etcd::is_address(url)) {  // Its URL may have a password in it.
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
