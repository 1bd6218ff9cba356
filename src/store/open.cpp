// Which store a URL names.
#include <memory>
#include <string>
#include <tuple>

#include "store/postgres/postgres_store.hpp"
#include "store/postgres/url.hpp"
#include "store/sqlite/sqlite_store.hpp"
#include "tenure/memory_store.hpp"
#include "tenure/store.hpp"

namespace tenure {
namespace {

constexpr std::string_view known = "'memory:', 'sqlite:PATH' or 'postgres://…'";
constexpr std::string_view sqlite_scheme = "sqlite:";

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
  return url == "memory:" || url.starts_with(sqlite_scheme) || postgres::is_postgres_url(url);
}

std::shared_ptr<Store> store(std::string_view url) {
  if (url == "memory:") return std::make_shared<MemoryStore>();
  if (url.starts_with(sqlite_scheme)) {
    return sqlite::open_sqlite(url.substr(sqlite_scheme.size()));
  }
  if (postgres::is_postgres_url(url)) return postgres::open_postgres(url);
  throw Error("'" + shown_url(url) + "' names no store: use " + std::string{known});
}

void repair(std::string_view url) {
  if (!url.starts_with(sqlite_scheme)) {
    throw Error("'" + shown_url(url) + "' has no epoch: only 'sqlite:PATH' has");
  }
  sqlite::SqliteOptions options;
  options.new_epoch = true;
  std::ignore = sqlite::open_sqlite(url.substr(sqlite_scheme.size()), options);
}

}  // namespace tenure
