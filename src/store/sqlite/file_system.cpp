#include "store/sqlite/file_system.hpp"

#include <sqlite3.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <new>
#include <tuple>
#include <vector>

#include "base/mutex.hpp"
#include "store/sqlite/checkpoints.hpp"
#include "tenure/store.hpp"

namespace tenure::sqlite {
namespace {

// SQLite allocates one block for a file: ours comes first, the underlying file behind it.
struct File {
  sqlite3_file base;
  sqlite3_file* under;
};

// A file whose writes may wait for the next ones, to be made together.
struct WaitingFile : File {
  // SQLite's own file system takes less than 128 KiB at once; a page has at most 64.
  static constexpr std::size_t most_gathered = 56UL * 1024;
  std::vector<char> waiting;
  sqlite3_int64 at;

  int flush() {
    if (waiting.empty()) return SQLITE_OK;
    const int code =
        under->pMethods->xWrite(under, waiting.data(), static_cast<int>(waiting.size()), at);
    waiting.clear();
    return code;
  }
};

struct LogFile : WaitingFile {  // A header waits for its page; frames, while they are gathered.
  static constexpr int header_size = 24;
  bool gathers;
};

// Lock numbers in the log's index: 0 writer, 1 checkpoint, 2 recovery, then one for each read mark.
// The mark at lock 3 means "no log".
// In a checkpoint, pages that are neighbours are written together. SQLite relies on them only after
// the sync that follows.
struct DatabaseFile : WaitingFile {
  static constexpr int checkpoint = 1;
  static constexpr int first_mark = 4;
  static constexpr int last_mark = 7;
  static constexpr std::uint32_t short_log = Checkpoints::long_log - 100;
  // Offset in the index of the number of pages in the log.
  static constexpr std::size_t length_at = 16;
  const volatile void* index;  // The beginning of the index; null: not mapped yet.
  bool in_checkpoint;
  bool refused;  // In the current search for a mark, which goes from the first mark to the last.

  // Whether to refuse the exclusive lock on a read mark. A reader that comes back to the first mark
  // has found none, and must get it.
  bool refuses(int mark) {
    if (mark == first_mark) refused = !refused && index != nullptr && log_length() < short_log;
    return refused;
  }
  // Other processes write this word meanwhile; any value is good enough.
  [[nodiscard]] std::uint32_t log_length() const {
    const auto* const length = static_cast<const volatile char*>(index) + length_at;
    return __atomic_load_n(reinterpret_cast<const volatile std::uint32_t*>(length),
                           __ATOMIC_RELAXED);
  }
};

template <class Kind>
Kind& as(sqlite3_file* file) {
  return *reinterpret_cast<Kind*>(file);
}

int write(sqlite3_file* base, const void* data, int size, sqlite3_int64 at) {
  auto& file = as<LogFile>(base);
  const char* const bytes = static_cast<const char*>(data);
  const auto waiting = static_cast<sqlite3_int64>(file.waiting.size());
  try {
    if (waiting != 0 && at == file.at + waiting) {
      file.waiting.insert(file.waiting.end(), bytes, bytes + size);
      if (file.gathers && file.waiting.size() < LogFile::most_gathered) return SQLITE_OK;
      return file.flush();
    }
    if (const int code = file.flush(); code != SQLITE_OK) return code;
    if (size == LogFile::header_size || file.gathers) {
      file.waiting.assign(bytes, bytes + size);
      file.at = at;
      return SQLITE_OK;
    }
  } catch (const std::bad_alloc&) {
    return SQLITE_IOERR_NOMEM;
  }
  return file.under->pMethods->xWrite(file.under, data, size, at);
}

int write_page(sqlite3_file* base, const void* data, int size, sqlite3_int64 at) {
  auto& file = as<DatabaseFile>(base);
  const char* const bytes = static_cast<const char*>(data);
  const auto waiting = static_cast<sqlite3_int64>(file.waiting.size());
  if (waiting != 0 &&
      (!file.in_checkpoint || at != file.at + waiting ||
       file.waiting.size() + static_cast<std::size_t>(size) > DatabaseFile::most_gathered)) {
    if (const int code = file.flush(); code != SQLITE_OK) return code;
  }
  if (!file.in_checkpoint) return file.under->pMethods->xWrite(file.under, data, size, at);
  try {
    if (file.waiting.empty()) file.at = at;
    file.waiting.insert(file.waiting.end(), bytes, bytes + size);
  } catch (const std::bad_alloc&) {
    return SQLITE_IOERR_NOMEM;
  }
  return SQLITE_OK;
}

int lock_index(sqlite3_file* base, int first, int count, int flags) {
  auto& file = as<DatabaseFile>(base);
  const bool mark = first >= DatabaseFile::first_mark && first <= DatabaseFile::last_mark;
  const bool moves_mark = mark && count == 1 && flags == (SQLITE_SHM_LOCK | SQLITE_SHM_EXCLUSIVE);
  if (moves_mark && !file.in_checkpoint && file.refuses(first)) return SQLITE_BUSY;
  // A checkpoint that failed has not synced.
  if (first == DatabaseFile::checkpoint && !file.waiting.empty()) std::ignore = file.flush();
  const int code = file.under->pMethods->xShmLock(file.under, first, count, flags);
  if (code != SQLITE_OK) return code;
  if (first == DatabaseFile::checkpoint) file.in_checkpoint = (flags & SQLITE_SHM_LOCK) != 0;
  if (mark && flags == (SQLITE_SHM_LOCK | SQLITE_SHM_SHARED)) file.refused = false;
  return SQLITE_OK;
}

int map_index(sqlite3_file* base, int region, int size, int extend, void volatile** found) {
  auto& file = as<DatabaseFile>(base);
  const int code = file.under->pMethods->xShmMap(file.under, region, size, extend, found);
  if (region == 0) file.index = code == SQLITE_OK ? *found : nullptr;
  return code;
}

int unmap_index(sqlite3_file* base, int remove) {
  auto& file = as<DatabaseFile>(base);
  file.index = nullptr;
  return file.under->pMethods->xShmUnmap(file.under, remove);
}

// Writes a header that is waiting, then makes the same call on the underlying file.
template <class Kind, auto method, class... Args>
auto pass(sqlite3_file* base, Args... args) {
  auto& file = as<Kind>(base);
  if (const int code = file.flush(); code != SQLITE_OK) return code;
  return (file.under->pMethods->*method)(file.under, args...);
}

template <class Kind>
int close(sqlite3_file* base) {
  const int code = pass<Kind, &sqlite3_io_methods::xClose>(base);
  std::destroy_at(&as<Kind>(base));
  return code;
}

template <class Kind>
constexpr sqlite3_io_methods passing() {
  using Methods = sqlite3_io_methods;
  Methods made{};
  made.iVersion = 1;
  made.xClose = close<Kind>;
  made.xRead = pass<Kind, &Methods::xRead, void*, int, sqlite3_int64>;
  made.xWrite = pass<Kind, &Methods::xWrite, const void*, int, sqlite3_int64>;
  made.xTruncate = pass<Kind, &Methods::xTruncate, sqlite3_int64>;
  made.xSync = pass<Kind, &Methods::xSync, int>;
  made.xFileSize = pass<Kind, &Methods::xFileSize, sqlite3_int64*>;
  made.xLock = pass<Kind, &Methods::xLock, int>;
  made.xUnlock = pass<Kind, &Methods::xUnlock, int>;
  made.xCheckReservedLock = pass<Kind, &Methods::xCheckReservedLock, int*>;
  made.xFileControl = pass<Kind, &Methods::xFileControl, int, void*>;
  made.xSectorSize = pass<Kind, &Methods::xSectorSize>;
  made.xDeviceCharacteristics = pass<Kind, &Methods::xDeviceCharacteristics>;
  return made;
}

constexpr sqlite3_io_methods log_methods = [] {
  sqlite3_io_methods made = passing<LogFile>();
  made.xWrite = write;
  return made;
}();

constexpr sqlite3_io_methods database_methods = [] {
  sqlite3_io_methods made = passing<DatabaseFile>();
  made.iVersion = 2;
  made.xWrite = write_page;
  made.xShmMap = map_index;
  made.xShmLock = lock_index;
  made.xShmBarrier = [](sqlite3_file* base) {
    sqlite3_file* const under = as<File>(base).under;
    under->pMethods->xShmBarrier(under);
  };
  made.xShmUnmap = unmap_index;
  return made;
}();

// A copy of the underlying VFS, except for its name and for how files are opened.
struct FileSystem {
  sqlite3_vfs vfs;  // First member: SQLite passes a pointer to it back to us.
  sqlite3_vfs* under;
  std::string name;
};

template <class Kind>
int open_as(sqlite3_vfs* under, const sqlite3_io_methods& methods, const char* path,
            sqlite3_file* file, int flags, int* out) {
  auto* const behind =
      reinterpret_cast<sqlite3_file*>(reinterpret_cast<char*>(file) + sizeof(Kind));
  file->pMethods = nullptr;
  const int code = under->xOpen(under, path, behind, flags, out);
  if (behind->pMethods == nullptr) return code;
  Kind* const made = new (file) Kind{};
  made->base.pMethods = &methods;
  made->under = behind;
  return code;
}

int open(sqlite3_vfs* vfs, const char* path, sqlite3_file* file, int flags, int* out) {
  sqlite3_vfs* const under = reinterpret_cast<FileSystem*>(vfs)->under;
  if ((flags & SQLITE_OPEN_WAL) != 0) {
    return open_as<LogFile>(under, log_methods, path, file, flags, out);
  }
  if ((flags & SQLITE_OPEN_MAIN_DB) != 0) {
    return open_as<DatabaseFile>(under, database_methods, path, file, flags, out);
  }
  return under->xOpen(under, path, file, flags, out);
}

// Null: the log of another file system, or not open yet.
LogFile* log_of(sqlite3* database) {
  sqlite3_file* log = nullptr;
  sqlite3_file_control(database, nullptr, SQLITE_FCNTL_JOURNAL_POINTER, static_cast<void*>(&log));
  return log != nullptr && log->pMethods == &log_methods ? &as<LogFile>(log) : nullptr;
}

}  // namespace

void gather_frames(sqlite3* database) noexcept {
  if (LogFile* const log = log_of(database)) log->gathers = true;
}

int end_frames(sqlite3* database, bool committed) noexcept {
  LogFile* const log = log_of(database);
  if (log == nullptr) return SQLITE_OK;
  log->gathers = false;
  if (committed) return log->flush();
  log->waiting.clear();
  return SQLITE_OK;
}

std::string with_fewer_calls(const std::string& under) {
  static constinit base::Mutex mutex;
  static auto* const made = new std::map<std::string, FileSystem>;
  const base::Mutex::Scoped lock{mutex};
  const auto [at, is_new] = made->try_emplace(under);
  FileSystem& system = at->second;
  if (!is_new) return system.name;
  system.under = sqlite3_vfs_find(under.empty() ? nullptr : under.c_str());
  if (system.under == nullptr) {
    made->erase(at);
    throw StoreError("SQLite has no VFS named '" + under + "'");
  }
  system.name = "tenure+" + std::string{system.under->zName};
  system.vfs = *system.under;
  system.vfs.pNext = nullptr;
  system.vfs.zName = system.name.c_str();
  system.vfs.szOsFile += static_cast<int>(std::max(sizeof(LogFile), sizeof(DatabaseFile)));
  system.vfs.xOpen = open;
  sqlite3_vfs_register(&system.vfs, 0);
  return system.name;
}

}  // namespace tenure::sqlite
