// Opening a store, and its facts for `tenure doctor`.
#include <sqlite3.h>
#include <sys/stat.h>

#include <map>
#include <string>
#include <utility>

#include "store/sqlite/checks.hpp"
#include "store/sqlite/executor.hpp"
#include "store/sqlite/sqlite_store.hpp"
#include "store/sqlite/views.hpp"
#include "store/sqlite/watches.hpp"

namespace tenure::sqlite {
namespace {

// The stores of this process, by file. Two stores of one file would be correct, but would have two
// queues.
struct Registry {
  std::map<std::pair<std::uint64_t, std::uint64_t>, std::weak_ptr<SqliteStore>> stores;

  static Registry& instance() {
    static auto* const registry = new Registry;  // A store may outlive every static object.
    return *registry;
  }
};

std::shared_ptr<Store> find_open(const std::filesystem::path& path) {
  const auto id = file_id(path);
  auto& stores = Registry::instance().stores;
  if (!id) return {};
  const auto at = stores.find({id->device, id->inode});
  if (at == stores.end()) return {};
  const std::shared_ptr<SqliteStore> store = at->second.lock();
  if (store && !store->forked() && store->intact()) return store;
  return {};
}

std::string permissions(const std::filesystem::path& path) {
  struct stat status{};
  if (::stat(path.c_str(), &status) != 0) return "unknown";
  const unsigned mode = status.st_mode & 0777U;
  return {'0', static_cast<char>('0' + (mode >> 6U)), static_cast<char>('0' + (mode >> 3U & 7U)),
          static_cast<char>('0' + (mode & 7U))};
}

}  // namespace

std::shared_ptr<Store> open_sqlite(const std::filesystem::path& path,
                                   const SqliteOptions& options) {
  const base::Mutex::Scoped lock{opening_mutex()};
  if (options.plain()) {
    if (auto store = find_open(path)) return store;
  }
  Opened opened = open_files(path, options);
  const FileId id = opened.file;
  auto store = std::make_shared<SqliteStore>(
      std::make_shared<Executor>(std::move(opened), options.max_pages), options);
  if (options.plain()) {
    auto& stores = Registry::instance().stores;
    std::erase_if(stores, [](const auto& one) { return one.second.expired(); });
    stores[{id.device, id.inode}] = store;
  }
  return store;
}

bool SqliteStore::intact() noexcept { return parts_->executor->intact(); }

std::vector<Store::Fact> SqliteStore::facts() {
  check_forked();
  Executor& executor = *parts_->executor;
  const Header& header = executor.side().header();
  const std::uint64_t revision = header.decided.load();
  const auto offset = std::chrono::duration_cast<std::chrono::milliseconds>(
      now().time_since_epoch() - std::chrono::nanoseconds{wall_clock_ns()});
  Txn sessions;
  sessions.reads.push_back(Range::prefix(std::string{session_prefix}));
  const Outcome outcome = executor.read(sessions);
  std::size_t dead = 0;
  for (const Entry& entry : outcome.reads.front()) {
    if (!alive(std::string_view{entry.key}.substr(session_prefix.size()))) ++dead;
  }
  const std::filesystem::path& path = executor.location().path;
  std::vector<Fact> facts;
  const auto add = [&facts](std::string name, std::string value) {
    facts.push_back({.name = std::move(name), .value = std::move(value)});
  };
  add("kind", "sqlite");
  add("path", path.string());
  add("side file", executor.side().path().string());
  add("sqlite", sqlite3_libversion());
  add("schema", executor.ask("PRAGMA user_version"));
  add("journal", executor.ask("PRAGMA journal_mode"));
  add("permissions", permissions(path));
  add("file system", file_system_name(path));
  add("epoch", std::to_string(revision >> count_bits));
  add("revision", std::to_string(revision));
  add("clock ahead of wall time, ms", std::to_string(offset.count()));
  add("sessions", std::to_string(outcome.reads.front().size()));
  add("sessions dead", std::to_string(dead));
  add("files in place", executor.intact() ? "yes" : "no");
  return facts;
}

}  // namespace tenure::sqlite
