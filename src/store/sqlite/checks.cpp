#include "store/sqlite/checks.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string>
#include <string_view>
#include <system_error>

#include "store/sqlite/views.hpp"

namespace tenure::sqlite {
namespace {

[[noreturn]] void refuse(const std::filesystem::path& path, const std::string& why) {
  throw StoreError(path.string() + " " + why);
}

std::string text_of(int error) { return std::generic_category().message(error); }

struct FileSystem {
  std::uint64_t type;
  std::string_view name;
  bool shared;  // Between machines, or run by a program: its locks and maps can't be relied on.
};
constexpr auto file_systems = std::to_array<FileSystem>({
    {0x6969, "NFS", true},        {0x517b, "SMB", true},          {0xfe534d42, "SMB2", true},
    {0xff534d42, "CIFS", true},   {0x01021997, "9p", true},       {0x65735546, "FUSE", true},
    {0x5346414f, "AFS", true},    {0x6b414653, "AFS", true},      {0x00c36400, "Ceph", true},
    {0x01161970, "GFS2", true},   {0x7461636f, "OCFS2", true},    {0x0bd00bd0, "Lustre", true},
    {0x73757245, "Coda", true},   {0x564c, "NCP", true},          {0x19830326, "BeeGFS", true},
    {0x47504653, "GPFS", true},   {0x786f4256, "vboxsf", true},   {0xbacbacbc, "vmhgfs", true},
    {0xef53, "ext4", false},      {0x58465342, "xfs", false},     {0x9123683e, "btrfs", false},
    {0x01021994, "tmpfs", false}, {0x794c7630, "overlay", false}, {0x2fc12fc1, "zfs", false},
    {0xf2f52010, "f2fs", false},
});

std::uint64_t type_of(const std::string& path) {
  struct statfs status{};
  if (::statfs(path.c_str(), &status) != 0) return 0;
  // The kernel's type is a signed long here and unsigned there; the numbers have 32 bits.
  return static_cast<std::uint32_t>(status.f_type);
}

const FileSystem* known(std::uint64_t type) {
  for (const FileSystem& one : file_systems) {
    if (one.type == type) return &one;
  }
  return nullptr;
}

std::filesystem::path resolve(const std::filesystem::path& path) {
  if (path.empty()) throw StoreError("a SQLite store needs a path: sqlite:app.db");
  std::error_code error;
  if (std::filesystem::is_symlink(path, error)) {
    const std::filesystem::path real = std::filesystem::canonical(path, error);
    if (error) refuse(path, "is a symbolic link to nothing: make its target, or remove it");
    return real;
  }
  const std::filesystem::path absolute = std::filesystem::absolute(path);
  const std::filesystem::path directory = std::filesystem::canonical(absolute.parent_path(), error);
  if (error) {
    refuse(absolute.parent_path(),
           "can't be reached (" + error.message() + "): make that directory first");
  }
  return directory / absolute.filename();
}

void check_directory(const std::filesystem::path& directory) {
  if (!std::filesystem::is_directory(directory)) refuse(directory, "is not a directory");
  if (::faccessat(AT_FDCWD, directory.c_str(), W_OK | X_OK, AT_EACCESS) != 0) {
    refuse(directory, "can't be written (" + text_of(errno) +
                          "): SQLite needs files beside the database; use another directory");
  }
}

void check_file_system(const std::filesystem::path& path, const SqliteOptions& options) {
  const std::uint64_t type =
      options.file_system ? options.file_system(path.string()) : type_of(path.string());
  const FileSystem* const found = known(type);
  if (found == nullptr || !found->shared) return;
  refuse(path, "is on a file system (" + std::string{found->name} +
                   ") whose locks do not hold between all who can see it: use a local disk");
}

void check_file(const std::filesystem::path& path, const struct stat& status) {
  if (S_ISDIR(status.st_mode)) refuse(path, "is a directory: name a file in it");
  if (!S_ISREG(status.st_mode)) refuse(path, "is not a regular file: name another one");
  if (::faccessat(AT_FDCWD, path.c_str(), R_OK | W_OK, AT_EACCESS) != 0) {
    refuse(path, "can't be read and written (" + text_of(errno) + "): change its permissions");
  }
  if (status.st_nlink > 1) {
    refuse(path, "has " + std::to_string(status.st_nlink) +
                     " hard links, and SQLite's log beside each name: keep one of them");
  }
  struct statx extended{};
  if (::statx(AT_FDCWD, path.c_str(), 0, 0, &extended) == 0 &&
      (extended.stx_attributes & extended.stx_attributes_mask & STATX_ATTR_MOUNT_ROOT) != 0) {
    refuse(path, "is a mount point, so the files beside it are not its own: mount its directory");
  }
}

}  // namespace

Found check_path(const std::filesystem::path& path, const SqliteOptions& options) {
  Found found;
  found.path = resolve(path);
  struct stat status{};
  found.exists = ::lstat(found.path.c_str(), &status) == 0;
  if (!found.exists && errno != ENOENT) refuse(found.path, "can't be used: " + text_of(errno));
  if (found.exists) {
    check_file(found.path, status);
    found.empty = status.st_size == 0;
    found.id = {status.st_dev, status.st_ino};
    found.owner = {status.st_uid, status.st_gid, status.st_mode & 0666U};
  } else {
    found.owner = {::geteuid(), ::getegid(), 0600};
  }
  check_directory(found.path.parent_path());
  check_file_system(found.exists ? found.path : found.path.parent_path(), options);
  return found;
}

void check_identity(const Place& place) {
  const auto other = [&place](const std::string& what) {
    refuse(place.path, "is " + what + ", not one of Tenure's; nothing was touched: name another");
  };
  std::string application;
  std::string version;
  try {
    Connection connection{place, Connection::Mode::identify};
    application = connection.ask("PRAGMA application_id");
    version = connection.ask("PRAGMA user_version");
  } catch (const DatabaseError& error) {
    if (error.code() == SQLITE_NOTADB) other("no SQLite database");
    throw;
  }
  if (application != std::to_string(application_id)) other("another program's SQLite database");
  if (version == std::to_string(schema_version)) return;
  refuse(place.path, "has schema version " + version + ", and this Tenure knows version " +
                         std::to_string(schema_version) + ": use the Tenure that made it");
}

std::string file_system_name(const std::filesystem::path& path) {
  const FileSystem* const found = known(type_of(path.string()));
  return found == nullptr ? "unknown" : std::string{found->name};
}

}  // namespace tenure::sqlite
