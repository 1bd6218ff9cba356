#include "pipeline/edits/disk.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <random>
#include <system_error>
#include <vector>

namespace tenure::pipeline {
namespace {

[[noreturn]] void fail_with_errno(const std::string& what, const FilePath& path) {
  throw std::system_error(errno, std::generic_category(), what + " '" + path.string() + "'");
}

Descriptor open_file(const FilePath& path, int flags, mode_t mode = 0) {
  Descriptor file{::open(path.c_str(), flags | O_CLOEXEC, mode)};
  if (!file.is_open()) fail_with_errno("open", path);
  return file;
}

void write_all(int descriptor, std::string_view bytes, const FilePath& path) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail_with_errno("write", path);
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
}

// NOLINTNEXTLINE(bugprone-easily-swappable-parameters): as every copy.
void copy_xattrs(int from, int to, const FilePath& path) {
  std::vector<char> names(65'536);
  const ssize_t size = ::flistxattr(from, names.data(), names.size());
  if (size < 0 && errno == ENOTSUP) return;
  if (size < 0) fail_with_errno("list the attributes of", path);
  std::vector<char> value(65'536);
  for (const char* name = names.data(); name < names.data() + size;
       name += std::string_view{name}.size() + 1) {
    const ssize_t length = ::fgetxattr(from, name, value.data(), value.size());
    if (length < 0) fail_with_errno("read the attributes of", path);
    if (::fsetxattr(to, name, value.data(), static_cast<std::size_t>(length), 0) != 0) {
      fail_with_errno("set the attribute " + std::string{name} + " of", path);
    }
  }
}

void copy_metadata(int from, int to, Disk::Times mtime, const FilePath& path) {
  struct stat status{};
  struct stat own{};
  if (::fstat(from, &status) != 0 || ::fstat(to, &own) != 0) fail_with_errno("stat", path);
  const bool same_owner = status.st_uid == own.st_uid && status.st_gid == own.st_gid;
  if (!same_owner && ::fchown(to, status.st_uid, status.st_gid) != 0) {
    fail_with_errno("change the owner of", path);
  }
  if (::fchmod(to, status.st_mode & 07777U) != 0) fail_with_errno("change the mode of", path);
  copy_xattrs(from, to, path);
  if (mtime == Disk::Times::now) return;
  const std::array<timespec, 2> times{status.st_atim, status.st_mtim};
  if (::futimens(to, times.data()) != 0) fail_with_errno("set the times of", path);
}

void rename_with(const FilePath& from, const FilePath& to, unsigned flags, const char* what) {
  if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), flags) != 0) {
    fail_with_errno(what, to);
  }
}

}  // namespace

Descriptor& Descriptor::operator=(Descriptor&& other) noexcept {
  if (this != &other) {
    if (number_ >= 0) ::close(number_);
    number_ = std::exchange(other.number_, -1);
  }
  return *this;
}

Descriptor::~Descriptor() {
  if (number_ >= 0) ::close(number_);
}

Disk& Disk::system() {
  static Disk disk;
  return disk;
}

void Disk::make_directory(const FilePath& path) {
  if (::mkdir(path.c_str(), 0700) != 0) fail_with_errno("make the directory", path);
}

void Disk::create(const FilePath& path, std::string_view bytes, int like, Times times) {
  const Descriptor file = open_file(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
  write_all(file.number(), bytes, path);
  if (like >= 0) copy_metadata(like, file.number(), times, path);
}

void Disk::sync(const FilePath& file) {
  const Descriptor open = open_file(file, O_RDONLY | O_NOFOLLOW);
  if (::fsync(open.number()) != 0) fail_with_errno("sync", file);
}

void Disk::sync_directory(const FilePath& directory) {
  const Descriptor open = open_file(directory, O_RDONLY | O_DIRECTORY);
  if (::fsync(open.number()) != 0) fail_with_errno("sync", directory);
}

void Disk::rename(const FilePath& from, const FilePath& to) {
  rename_with(from, to, 0, "rename to");
}
void Disk::exchange(const FilePath& a, const FilePath& b) {
  rename_with(a, b, RENAME_EXCHANGE, "exchange");
}
void Disk::put_back(const FilePath& from, const FilePath& to) {
  rename_with(from, to, RENAME_NOREPLACE, "put back");
}
void Disk::remove(const FilePath& file) {
  if (::unlink(file.c_str()) != 0) fail_with_errno("remove", file);
}
void Disk::remove_directory(const FilePath& directory) {
  if (::rmdir(directory.c_str()) != 0) fail_with_errno("remove", directory);
}

Identity identity_of(const struct stat& status) noexcept {
  return {.device = status.st_dev, .inode = status.st_ino};
}

std::optional<Identity> identity_of(const FilePath& path) {
  struct stat status{};
  if (::lstat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) return std::nullopt;
  return identity_of(status);
}

bool is_there(const FilePath& path) {
  struct stat status{};
  return ::lstat(path.c_str(), &status) == 0;
}

std::string read_all(int descriptor) {
  std::string bytes;
  std::vector<char> buffer(65'536);
  for (;;) {
    const ssize_t size =
        ::pread(descriptor, buffer.data(), buffer.size(), static_cast<off_t>(bytes.size()));
    if (size < 0 && errno == EINTR) continue;
    if (size < 0) throw std::system_error(errno, std::generic_category(), "read");
    if (size == 0) return bytes;
    bytes.append(buffer.data(), static_cast<std::size_t>(size));
    if (bytes.size() > max_edited_bytes) {
      throw std::system_error(EFBIG, std::generic_category(), "read");
    }
  }
}

std::optional<std::string> read_file(const FilePath& path) {
  const Descriptor file{
      ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY)};
  struct stat status{};
  if (!file.is_open()) {
    if (errno == ENOENT || errno == ELOOP || errno == ENOTDIR) return std::nullopt;
    fail_with_errno("open", path);
  }
  if (::fstat(file.number(), &status) != 0) fail_with_errno("stat", path);
  if (!S_ISREG(status.st_mode) || static_cast<std::size_t>(status.st_size) > max_edited_bytes) {
    return std::nullopt;
  }
  return read_all(file.number());
}

std::string new_id() {
  constexpr std::string_view digits = "0123456789abcdef";
  std::random_device random;
  std::string id(32, '0');
  for (char& digit : id) digit = digits[random() % digits.size()];
  return id;
}

Descriptor open_locked(const FilePath& path) {
  Descriptor file = open_file(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
  if (::flock(file.number(), LOCK_EX | LOCK_NB) == 0) return file;
  if (errno != EWOULDBLOCK) fail_with_errno("lock", path);
  return Descriptor{};
}

}  // namespace tenure::pipeline
