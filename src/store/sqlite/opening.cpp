#include "store/sqlite/opening.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <system_error>
#include <vector>

#include "core/escape.hpp"
#include "store/session_entry.hpp"
#include "store/sqlite/checks.hpp"
#include "store/sqlite/file_system.hpp"
#include "store/sqlite/flow_views.hpp"
#include "store/sqlite/views.hpp"

namespace tenure::sqlite {
namespace {

// What tenure_meta records about the files and the machine.
struct Record {
  std::uint64_t epoch = 0;
  std::string side;
  std::string boot;
  FileId file;
  std::int64_t base = 0;
};

std::string meta(Connection& database, std::string_view name) {
  return database.ask("SELECT value FROM tenure_meta WHERE name=?1", {{.bytes = name}});
}

void set_meta(Connection& database, std::string_view name, const std::string& value) {
  database.ask("INSERT INTO tenure_meta VALUES(?1,?2) ON CONFLICT DO UPDATE SET value=?2",
               {{.bytes = name}, {.bytes = value}});
}

std::uint64_t number(const std::string& text) {
  return text.empty() ? 0 : std::strtoull(text.c_str(), nullptr, 10);
}

Record recorded(Connection& database) {
  Record record;
  record.epoch = number(meta(database, "epoch"));
  record.side = meta(database, "side");
  record.boot = meta(database, "boot");
  record.file = {.device = number(meta(database, "device")),
                 .inode = number(meta(database, "inode"))};
  record.base = static_cast<std::int64_t>(number(meta(database, "base")));
  return record;
}

// Runs at the gate. The epoch is durable before any of its revisions is used. Writers that are
// alone do not pass the gate, so the counters are changed under SQLite's write lock, in a second
// transaction that nobody can get between. Until then, revisions of the old epoch remain valid.
void write_epoch(Connection& full, SideFile& side, Record record) {
  const auto wall = static_cast<std::uint64_t>(std::max<std::int64_t>(wall_clock_ns(), 0));
  full.begin_write();
  try {
    const std::uint64_t counted = side.header().last.load() >> count_bits;
    record.epoch = std::max({record.epoch + 1, counted + 1, wall / 1'000'000'000});
    set_meta(full, "epoch", std::to_string(record.epoch));
    set_meta(full, "side", record.side);
    set_meta(full, "boot", record.boot);
    set_meta(full, "device", std::to_string(record.file.device));
    set_meta(full, "inode", std::to_string(record.file.inode));
    set_meta(full, "base", std::to_string(record.base));
    full.commit();
  } catch (...) {
    full.rollback();
    throw;
  }
  full.begin_write();
  side.header().base.store(record.base);
  side.header().last.store(record.epoch << count_bits);
  side.header().decided.store(record.epoch << count_bits);
  full.rollback();
}

// Only one process at a time raises the epoch.
class OpeningAtGate {
 public:
  explicit OpeningAtGate(SideFile& side) : side_(side) { side_.enter_gate(); }
  ~OpeningAtGate() { side_.leave_gate(); }
  OpeningAtGate(const OpeningAtGate&) = delete;
  OpeningAtGate& operator=(const OpeningAtGate&) = delete;

 private:
  SideFile& side_;
};

std::int64_t clock_base(const Record& old, const std::string& boot) {
  const std::int64_t fresh = wall_clock_ns() - boot_ns();
  if (old.base == 0) return fresh;
  // Without a boot id the boot may or may not be the same one: the clock must not go back in either
  // case.
  if (boot.empty()) return std::max(old.base, fresh);
  return boot == old.boot ? old.base : fresh;
}

void refuse_lost_side(Connection& database, const SideFile& side, const std::string& boot) {
  const std::string count = database.ask(
      "SELECT count(*) FROM tenure_sessions WHERE coalesce(boot,'')=?1", {{.bytes = boot}});
  if (count == "0") return;
  throw StoreError("'" + side.path().string() +
                   "' is not the file that was used with this database, and the database lists " +
                   count +
                   " session(s) since the last boot: their processes may still run, and "
                   "other processes could not see their locks. Stop all programs that use the "
                   "database, then run `tenure doctor --new-epoch`");
}

// The session that keeps a ticket alive; empty: none. Null: the ticket is kept alive by a key of
// the store, or by something that only a later version of Tenure knows, so it does not depend on
// sessions.
std::optional<std::string> session_of(const std::string& ticket) {
  // Earlier versions wrote labels without validating them; such a ticket may be live.
  const nlohmann::json value = nlohmann::json::parse(as_utf8(ticket), nullptr, false);
  if (!value.is_object()) return std::string{};
  if (value.contains("anchor") || value.contains("format")) return std::nullopt;
  if (!value.contains("session") || !value["session"].is_string()) return std::string{};
  return value["session"].get<std::string>();
}

// Removes what sessions without a lock left behind, and notifies all watches.
void remove_dead(Connection& database, const SideFile& side) {
  database.begin_write();
  try {
    std::set<std::string> alive;
    for (const Entry& session : database.read(Range::prefix(std::string{session_prefix}), {})) {
      const std::string id = session.key.substr(1);
      const auto byte = session_byte(id);
      if (byte && write_locked(side.probe()->get(), *byte)) {
        alive.insert(id);
      } else {
        database.remove(session.key);
      }
    }
    Range tickets;
    tickets.from = reserved::exclusive_claims;
    tickets.to = session_prefix;
    for (const Entry& ticket : database.read(tickets, {})) {
      const std::optional<std::string> session = session_of(ticket.value);
      if (session.has_value() && !alive.contains(*session)) database.remove(ticket.key);
    }
    const std::uint64_t revision = side.header().last.fetch_add(1) + 1;
    for (std::size_t i = 0; i < buckets; ++i) side.bucket(i).revision.store(revision);
    database.commit();
    side.raise_decided(revision);
  } catch (...) {
    database.rollback();
    throw;
  }
}

void raise_epoch_if_needed(const Opened& opened, const SqliteOptions& options) {
  const std::string boot = options.boot ? *options.boot : stores::boot_id();
  SideFile& side = *opened.side;
  Connection& database = *opened.full;
  const Record old = recorded(database);
  const bool side_differs = old.side != side.identity();
  if (side_differs && !old.side.empty() && !options.new_epoch) {
    refuse_lost_side(database, side, boot);
  }
  const bool raise = options.new_epoch || side_differs || boot.empty() || old.boot != boot ||
                     old.file != opened.file ||
                     side.header().last.load() >> count_bits != old.epoch;
  if (!raise) return;
  const OpeningAtGate gate{side};
  write_epoch(database, side,
              {.epoch = old.epoch,
               .side = side.identity(),
               .boot = boot,
               .file = opened.file,
               .base = clock_base(old, boot)});
  if (options.new_epoch) remove_dead(database, side);
}

// Creates an empty file, private to its owner whatever the umask.
void make_file(const std::filesystem::path& path) {
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) {
    throw StoreError("'" + path.string() +
                     "' can't be created: " + std::generic_category().message(errno));
  }
  ::fchmod(fd, 0600);
  ::close(fd);
}

void make_views(Connection& database) {
  database.execute(views_sql);
  database.execute(flow_views_sql().c_str());
  set_meta(database, "views", std::to_string(views_version));
}

void make_schema(Connection& database) {
  try {
    // Small pages: a lock writes one page, and most of its cost depends on the page's size. Rows
    // above 229 bytes need a second page. Created with a rollback journal, so that the file's own
    // header identifies it from the first commit on; with a log, the header would be in the log.
    database.execute("PRAGMA page_size=1024; PRAGMA journal_mode=DELETE; BEGIN IMMEDIATE");
    database.execute(schema_sql);
    make_views(database);
    database.execute(("PRAGMA application_id=" + std::to_string(application_id) +
                      "; PRAGMA user_version=" + std::to_string(schema_version) + "; COMMIT")
                         .c_str());
  } catch (...) {
    database.rollback();
    throw;
  }
}

// Views of an earlier version are replaced; what a later one made stays.
void update_views(Connection& database) {
  const auto outdated = [&database] { return number(meta(database, "views")) < views_version; };
  if (!outdated()) return;
  database.begin_write();
  try {
    if (outdated()) {
      make_views(database);
    }
    database.commit();
  } catch (...) {
    database.rollback();
    throw;
  }
}

void use_log(Connection& database, const DatabaseLocation& location) {
  const std::string mode = database.ask("PRAGMA journal_mode=WAL");
  if (mode == "wal") return;
  throw StoreError("'" + location.path.string() +
                   "' can't use SQLite's write-ahead log (journal_mode is '" + mode +
                   "'): use a local disk");
}

}  // namespace

std::int64_t wall_clock_ns() noexcept {
  timespec time{};
  ::clock_gettime(CLOCK_REALTIME, &time);
  return (std::int64_t{time.tv_sec} * 1'000'000'000) + time.tv_nsec;
}

void raise_epoch(Connection& full, SideFile& side) { write_epoch(full, side, recorded(full)); }

Opened open_files(const std::filesystem::path& path, const SqliteOptions& options) {
  Found found = check_path(path, options);
  Opened opened;
  opened.location = {.path = found.path, .vfs = with_fewer_calls(options.vfs)};
  std::filesystem::path side = found.path;
  side += "-tenure";
  // The database of another program never gets a side file. A process that creates a database
  // creates its side file first, so this database is not half created.
  if (!found.empty && !file_id(side)) check_identity(opened.location);
  opened.side = std::make_shared<SideFile>(side, found.owner);
  found = check_path(found.path, options);  // Again, now that no other process is creating it.
  bool made = false;
  try {
    if (!found.exists) {
      make_file(found.path);
      made = true;
    }
    if (!found.empty) check_identity(opened.location);
    opened.full = std::make_unique<Connection>(opened.location, Connection::Mode::full);
    opened.full->when_busy([side = opened.side] { side->say_crowded(coarse_clock_ns()); });
    if (found.empty) make_schema(*opened.full);
    use_log(*opened.full, opened.location);
    update_views(*opened.full);
    opened.file = file_id(found.path).value_or(FileId{});
    raise_epoch_if_needed(opened, options);
  } catch (...) {
    opened.full.reset();
    if (made) ::unlink(found.path.c_str());
    throw;
  }
  opened.side->done();
  return opened;
}

}  // namespace tenure::sqlite
