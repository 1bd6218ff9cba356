// Which store a URL names.
#include <memory>
#include <string>

#include "store/sqlite/sqlite_store.hpp"
#include "tenure/memory_store.hpp"
#include "tenure/store.hpp"

namespace tenure {
namespace {

constexpr std::string_view known = "'memory:' or 'sqlite:PATH'";

}  // namespace

std::shared_ptr<Store> store(std::string_view url) {
  if (url == "memory:") return std::make_shared<MemoryStore>();
  constexpr std::string_view sqlite = "sqlite:";
  if (url.starts_with(sqlite)) return sqlite::open_sqlite(url.substr(sqlite.size()));
  throw Error("'" + std::string{url} + "' names no store: use " + std::string{known});
}

}  // namespace tenure
