#include "store/sqlite/log_writes.hpp"

#include <sqlite3.h>

#include <cstddef>
#include <cstring>
#include <map>
#include <memory>
#include <new>
#include <vector>

#include "base/mutex.hpp"
#include "tenure/store.hpp"

namespace tenure::sqlite {
namespace {

constexpr int header_size = 24;

// The log's file. The one underneath stands behind it in the memory that SQLite gave.
struct LogFile {
  sqlite3_file base;
  sqlite3_file* under;
  std::vector<char> frame;  // A header that waits for its page, if any.
  sqlite3_int64 at;
};

LogFile& log(sqlite3_file* file) { return *reinterpret_cast<LogFile*>(file); }

int write_waiting(LogFile& file) {
  if (file.frame.empty()) return SQLITE_OK;
  const int code = file.under->pMethods->xWrite(file.under, file.frame.data(),
                                                static_cast<int>(file.frame.size()), file.at);
  file.frame.clear();
  return code;
}

int write(sqlite3_file* base, const void* data, int size, sqlite3_int64 at) {
  LogFile& file = log(base);
  const char* const bytes = static_cast<const char*>(data);
  const auto waiting = static_cast<sqlite3_int64>(file.frame.size());
  try {
    if (waiting != 0 && at == file.at + waiting) {
      file.frame.insert(file.frame.end(), bytes, bytes + size);
      return write_waiting(file);
    }
    if (const int code = write_waiting(file); code != SQLITE_OK) return code;
    if (size == header_size) {
      file.frame.assign(bytes, bytes + size);
      file.at = at;
      return SQLITE_OK;
    }
  } catch (const std::bad_alloc&) {
    return SQLITE_IOERR_NOMEM;
  }
  return file.under->pMethods->xWrite(file.under, data, size, at);
}

// What waits goes first, then the same call underneath.
template <auto method, class... Args>
int pass(sqlite3_file* base, Args... args) {
  LogFile& file = log(base);
  if (const int code = write_waiting(file); code != SQLITE_OK) return code;
  return (file.under->pMethods->*method)(file.under, args...);
}

int close(sqlite3_file* base) {
  LogFile& file = log(base);
  const int code = pass<&sqlite3_io_methods::xClose>(base);
  std::destroy_at(&file);
  return code;
}

constexpr sqlite3_io_methods methods = [] {
  sqlite3_io_methods made{};
  made.iVersion = 1;
  made.xClose = close;
  made.xRead = pass<&sqlite3_io_methods::xRead, void*, int, sqlite3_int64>;
  made.xWrite = write;
  made.xTruncate = pass<&sqlite3_io_methods::xTruncate, sqlite3_int64>;
  made.xSync = pass<&sqlite3_io_methods::xSync, int>;
  made.xFileSize = pass<&sqlite3_io_methods::xFileSize, sqlite3_int64*>;
  made.xLock = pass<&sqlite3_io_methods::xLock, int>;
  made.xUnlock = pass<&sqlite3_io_methods::xUnlock, int>;
  made.xCheckReservedLock = pass<&sqlite3_io_methods::xCheckReservedLock, int*>;
  made.xFileControl = pass<&sqlite3_io_methods::xFileControl, int, void*>;
  made.xSectorSize = pass<&sqlite3_io_methods::xSectorSize>;
  made.xDeviceCharacteristics = pass<&sqlite3_io_methods::xDeviceCharacteristics>;
  return made;
}();

// A copy of the one underneath but for its name and how files are opened.
struct FileSystem {
  sqlite3_vfs vfs;  // First: SQLite hands it back.
  sqlite3_vfs* under;
  std::string name;
};

int open(sqlite3_vfs* vfs, const char* path, sqlite3_file* file, int flags, int* out) {
  sqlite3_vfs* const under = reinterpret_cast<FileSystem*>(vfs)->under;
  if ((flags & SQLITE_OPEN_WAL) == 0) return under->xOpen(under, path, file, flags, out);
  auto* const behind =
      reinterpret_cast<sqlite3_file*>(reinterpret_cast<char*>(file) + sizeof(LogFile));
  file->pMethods = nullptr;
  const int code = under->xOpen(under, path, behind, flags, out);
  if (behind->pMethods == nullptr) return code;
  new (file) LogFile{.base = {.pMethods = &methods}, .under = behind, .frame = {}, .at = 0};
  return code;
}

}  // namespace

std::string with_joined_log_writes(const std::string& under) {
  static constinit base::Mutex mutex;
  static auto* const made = new std::map<std::string, FileSystem>;
  const base::Mutex::Scoped lock{mutex};
  const auto [at, is_new] = made->try_emplace(under);
  FileSystem& system = at->second;
  if (!is_new) return system.name;
  system.under = sqlite3_vfs_find(under.empty() ? nullptr : under.c_str());
  if (system.under == nullptr) {
    made->erase(at);
    throw StoreError("SQLite has no file system '" + under + "'");
  }
  system.name = "tenure+" + std::string{system.under->zName};
  system.vfs = *system.under;
  system.vfs.pNext = nullptr;
  system.vfs.zName = system.name.c_str();
  system.vfs.szOsFile += static_cast<int>(sizeof(LogFile));
  system.vfs.xOpen = open;
  sqlite3_vfs_register(&system.vfs, 0);
  return system.name;
}

}  // namespace tenure::sqlite
