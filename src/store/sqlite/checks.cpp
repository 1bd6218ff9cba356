#include "store/sqlite/checks.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <cerrno>
#include <map>
#include <string>
#include <string_view>
#include <system_error>

#include "store/sqlite/refusal.hpp"
#include "store/sqlite/views.hpp"

namespace tenure::sqlite {
namespace {

using FileSystems = std::map<std::uint64_t, std::string_view>;

// File systems shared between machines, or implemented by a user program: their locks and mappings
// are not reliable.
const FileSystems& shared_file_systems() {
  static const FileSystems all = {
      {0x6969, "NFS"},      {0x517b, "SMB"},        {0xfe534d42, "SMB2"},
      {0xff534d42, "CIFS"}, {0x01021997, "9p"},     {0x65735546, "FUSE"},
      {0x5346414f, "AFS"},  {0x6b414653, "AFS"},    {0x00c36400, "Ceph"},
      {0x01161970, "GFS2"}, {0x7461636f, "OCFS2"},  {0x0bd00bd0, "Lustre"},
      {0x73757245, "Coda"}, {0x564c, "NCP"},        {0x19830326, "BeeGFS"},
      {0x47504653, "GPFS"}, {0x786f4256, "vboxsf"}, {0xbacbacbc, "vmhgfs"},
  };
  return all;
}

// Names to show; all of these are accepted.
const FileSystems& local_file_systems() {
  static const FileSystems all = {
      {0xef53, "ext4"},        {0x58465342, "xfs"}, {0x9123683e, "btrfs"}, {0x01021994, "tmpfs"},
      {0x794c7630, "overlay"}, {0x2fc12fc1, "zfs"}, {0xf2f52010, "f2fs"},
  };
  return all;
}

std::uint64_t type_of(const std::string& path) {
  struct statfs status{};
  if (::statfs(path.c_str(), &status) != 0) return 0;
  // The type of f_type is signed on some platforms and unsigned on others; its values have 32 bits.
  return static_cast<std::uint32_t>(status.f_type);
}

std::filesystem::path resolve(const std::filesystem::path& path) {
  if (path.empty()) throw StoreError("a SQLite store needs a path: write sqlite:app.db");
  std::error_code error;
  if (std::filesystem::is_symlink(path, error)) {
    const std::filesystem::path real = std::filesystem::canonical(path, error);
    if (error)
      refuse(path, "is a symbolic link to a missing file: create that file, or remove the link");
    return real;
  }
  const std::filesystem::path absolute = std::filesystem::absolute(path);
  const std::filesystem::path directory = std::filesystem::canonical(absolute.parent_path(), error);
  if (error) {
    refuse(absolute.parent_path(),
           "can't be used (" + error.message() + "): create that directory first");
  }
  return directory / absolute.filename();
}

void check_directory(const std::filesystem::path& directory) {
  if (!std::filesystem::is_directory(directory)) refuse(directory, "is not a directory");
  if (::faccessat(AT_FDCWD, directory.c_str(), W_OK | X_OK, AT_EACCESS) != 0) {
    refuse(directory, "can't be written (" + text_of(errno) +
                          "): SQLite creates files beside the database; use another directory");
  }
}

void check_file_system(const std::filesystem::path& path, const SqliteOptions& options) {
  const std::uint64_t type =
      options.file_system ? options.file_system(path.string()) : type_of(path.string());
  const auto found = shared_file_systems().find(type);
  if (found == shared_file_systems().end()) return;
  refuse(path, "is on a file system (" + std::string{found->second} +
                   ") whose locks do not work across machines: use a local disk");
}

void check_file(const std::filesystem::path& path, const struct stat& status) {
  if (S_ISDIR(status.st_mode)) refuse(path, "is a directory: name a file in it");
  if (!S_ISREG(status.st_mode)) refuse(path, "is not a regular file: name another file");
  if (::faccessat(AT_FDCWD, path.c_str(), R_OK | W_OK, AT_EACCESS) != 0) {
    refuse(path, "can't be read and written (" + text_of(errno) + "): change its permissions");
  }
  if (status.st_nlink > 1) {
    refuse(path, "has " + std::to_string(status.st_nlink) +
                     " hard links, and each name would get a log of its own: keep only one name");
  }
  struct statx extended{};
  if (::statx(AT_FDCWD, path.c_str(), 0, 0, &extended) == 0 &&
      (extended.stx_attributes & extended.stx_attributes_mask & STATX_ATTR_MOUNT_ROOT) != 0) {
    refuse(path,
           "is a mount point, so SQLite's files beside it would not be shared: mount its "
           "directory instead");
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
    found.owner = {.uid = status.st_uid, .gid = status.st_gid, .mode = status.st_mode & 0666U};
  } else {
    found.owner = {.uid = ::geteuid(), .gid = ::getegid(), .mode = 0600};
  }
  check_directory(found.path.parent_path());
  check_file_system(found.exists ? found.path : found.path.parent_path(), options);
  return found;
}

namespace {

constexpr std::string_view header_magic{"SQLite format 3\0", 16};

// Reads the header of the file through SQLite's own descriptor. Not with SQL: page 1 is the first
// page that a checkpoint writes. If the writer was killed then, page 1 counts more pages than the
// file has, and SQLite without its log reports a damaged file.
std::string header_of(const DatabaseLocation& location) {
  const Connection connection{location, Connection::Mode::identify};
  std::string header(100, '\0');
  sqlite3_file* file = nullptr;
  sqlite3_file_control(connection.raw(), "main", SQLITE_FCNTL_FILE_POINTER,
                       static_cast<void*>(&file));
  const int code = file->pMethods->xRead(file, header.data(), static_cast<int>(header.size()), 0);
  if (code != SQLITE_OK && code != SQLITE_IOERR_SHORT_READ) refuse(location.path, "can't be read");
  return header;
}

std::uint32_t number_at(std::string_view header, std::size_t at) {
  std::uint32_t number = 0;
  for (const char c : header.substr(at, 4)) number = number << 8U | static_cast<unsigned char>(c);
  return number;
}

}  // namespace

void check_identity(const DatabaseLocation& location) {
  const auto other = [&location](const std::string& what) {
    refuse(location.path, "is " + what + ": name another file; nothing was changed");
  };
  const std::string header = header_of(location);
  if (!header.starts_with(header_magic)) other("not a SQLite database");
  if (number_at(header, 68) != application_id) other("a SQLite database of another program");
  const std::uint32_t version = number_at(header, 60);
  if (version == schema_version) return;
  refuse(location.path,
         "has schema version " + std::to_string(version) + ", but this program supports version " +
             std::to_string(schema_version) + ": use the version of Tenure that created it");
}

std::string file_system_name(const std::filesystem::path& path) {
  const std::uint64_t type = type_of(path.string());
  for (const FileSystems& all : {local_file_systems(), shared_file_systems()}) {
    if (const auto found = all.find(type); found != all.end()) return std::string{found->second};
  }
  return "unknown";
}

}  // namespace tenure::sqlite
