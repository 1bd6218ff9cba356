// Which store a URL names.
#include <memory>
#include <string>
#include <tuple>

#include "store/sqlite/sqlite_store.hpp"
#include "tenure/memory_store.hpp"
#include "tenure/store.hpp"

namespace tenure {
namespace {

constexpr std::string_view known = "'memory:' or 'sqlite:PATH'";
constexpr std::string_view sqlite_scheme = "sqlite:";

}  // namespace

bool is_store(std::string_view url) noexcept {
  return url == "memory:" || url.starts_with(sqlite_scheme);
}

std::shared_ptr<Store> store(std::string_view url) {
  if (url == "memory:") return std::make_shared<MemoryStore>();
  if (url.starts_with(sqlite_scheme)) {
    return sqlite::open_sqlite(url.substr(sqlite_scheme.size()));
  }
  throw Error("'" + std::string{url} + "' names no store: use " + std::string{known});
}

void repair(std::string_view url) {
  if (!url.starts_with(sqlite_scheme)) {
    throw Error("'" + std::string{url} + "' has no epoch: only 'sqlite:PATH' has");
  }
  sqlite::SqliteOptions options;
  options.new_epoch = true;
  std::ignore = sqlite::open_sqlite(url.substr(sqlite_scheme.size()), options);
}

}  // namespace tenure
