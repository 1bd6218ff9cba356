// disk.hpp: the operations on files that edits are made of. Tests put themselves in between: they
// end the process after any of them, or lose what was not synced.
//
// Reading is not here: a crash does not care what was read.
//
// Each function throws std::system_error. Thread safety: all of it.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace tenure::pipeline {

using FilePath = std::filesystem::path;

// A descriptor, closed with the object.
class Descriptor {
 public:
  explicit Descriptor(int number = -1) noexcept : number_(number) {}
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept;
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor();
  [[nodiscard]] int number() const noexcept { return number_; }
  [[nodiscard]] bool is_open() const noexcept { return number_ >= 0; }

 private:
  int number_;
};

class Disk {
 public:
  Disk() = default;
  Disk(const Disk&) = delete;
  Disk& operator=(const Disk&) = delete;
  virtual ~Disk() = default;

  // Of the real file system.
  static Disk& system();

  virtual void make_directory(const FilePath& path);
  // A new file with these bytes, not synced; it must not be there yet. With `like`, owner, mode and
  // xattrs (ACLs are some) are those of that open file; with Times::same, mtime too.
  enum class Times : std::uint8_t { same, now };
  virtual void create(const FilePath& path, std::string_view bytes, int like = -1,
                      Times times = Times::same);
  virtual void sync(const FilePath& file);
  virtual void sync_directory(const FilePath& directory);
  virtual void rename(const FilePath& from, const FilePath& to);    // Replaces `to`.
  virtual void exchange(const FilePath& a, const FilePath& b);      // Atomically.
  virtual void put_back(const FilePath& from, const FilePath& to);  // `to` must not be there.
  virtual void remove(const FilePath& file);                        // A file that is there.
  virtual void remove_directory(const FilePath& directory);         // An empty one.
};

// --- Looking.

// Which file it is. Null: there is none, or it is not a regular file.
struct Identity {
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  friend bool operator==(const Identity&, const Identity&) = default;
};
[[nodiscard]] std::optional<Identity> identity_of(const FilePath& path);
[[nodiscard]] Identity identity_of(const struct stat& status) noexcept;
[[nodiscard]] bool is_there(const FilePath& path);  // As anything, a dangling link too.

inline constexpr std::size_t max_edited_bytes = 64U << 20U;
// The bytes of a regular file; null where there is none, or it is too large. Follows no links.
[[nodiscard]] std::optional<std::string> read_file(const FilePath& path);
[[nodiscard]] std::string read_all(int descriptor);

// A name that nobody else has: 128 random bits.
[[nodiscard]] std::string new_id();

// Opens a regular file and takes its lock. Not open: somebody else has the lock.
[[nodiscard]] Descriptor open_locked(const FilePath& path);

}  // namespace tenure::pipeline
