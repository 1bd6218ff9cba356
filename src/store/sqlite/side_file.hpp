// side_file.hpp: the file beside the database: counters and doorbells that all processes map, and
// bytes that they lock.
//
// The database file itself can't carry locks: closing any descriptor of it would drop SQLite's own.
// All locks here are OFD locks. They belong to an open file description, so they end with the last
// process that has it, however that ends and in whatever PID namespace; a stopped process keeps its
// locks.
//
//   mapped                                locked bytes (far behind the end of the file)
//   0      Header                         2^40          opening: while creating or repairing
//          Bucket[buckets]                2^40 + 1, 2   the gate: by a writer, in a crowd
//          Doorbell[doorbells]            2^41 + slot   doorbell slots, each by its process
//          WriteLog, since version 2      2^62 + random sessions, each by its process
//
// Invariants
//   1. `last` only goes up, and is raised inside a write transaction before the revision is used.
//   2. Every revision up to `decided` is in the database or never will be.
//   3. A bucket's revision is that of the last apply that wrote one of its keys, committed or not.
//
// Memory order: sequentially consistent throughout. A watcher sets its bit, then looks at
// `decided`; a writer raises `decided`, then looks at the bits: one of the two sees the other.
//
// Thread safety: all of it.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "store/sqlite/fork.hpp"
#include "store/sqlite/write_log.hpp"

namespace tenure::sqlite {

// Processes that watch at the same time; more have to share.
inline constexpr std::size_t doorbells = 1024;
inline constexpr std::size_t key_buckets = 16384;       // By the hash of the key,
inline constexpr std::size_t first_byte_buckets = 256;  // by its first byte,
inline constexpr std::size_t every_key = key_buckets + first_byte_buckets;  // and one for all.
inline constexpr std::size_t buckets = every_key + 1;

struct Bucket {
  std::atomic<std::uint64_t> bits;  // Which slots (modulo 64) are to be rung.
  std::atomic<std::uint64_t> revision;
};

struct Doorbell {
  std::atomic<std::uint32_t> word;      // Rises with each ring; its process sleeps on it.
  std::atomic<std::uint32_t> sleepers;  // Zero: a ring needs no system call.
  std::atomic<std::uint64_t> summary;   // For which buckets (modulo 64) it was rung.
};

struct Header {
  std::array<char, 8> magic;
  std::uint32_t version;
  std::array<char, 32> identity;       // Random hexadecimal digits that identify this side file.
  std::atomic<std::uint64_t> last;     // The last revision that was used.
  std::atomic<std::uint64_t> decided;  // The last revision whose fate is known.
  std::atomic<std::int64_t> base;      // The store's clock minus CLOCK_BOOTTIME, ns.
  std::atomic<std::int64_t>
      crowded;  // Until when writers queue at the gate: coarse CLOCK_MONOTONIC, ns.
};

struct Shared {
  Header header;
  std::array<Bucket, buckets> bucket;
  std::array<Doorbell, doorbells> doorbell;
  WriteLog log;
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free && sizeof(Bucket) == 16 &&
              sizeof(Doorbell) == 16);

[[nodiscard]] std::size_t key_bucket(std::string_view key) noexcept;
[[nodiscard]] std::size_t first_byte_bucket(std::string_view key) noexcept;

enum class Byte : std::int64_t {};  // An offset in the side file.
enum class LockType : std::uint8_t { read = F_RDLCK, write = F_WRLCK, none = F_UNLCK };
inline constexpr Byte opening_byte{std::int64_t{1} << 40};
inline constexpr Byte gate_byte{(std::int64_t{1} << 40) + 1};
inline constexpr Byte gate_queue_byte{(std::int64_t{1} << 40) + 2};
inline constexpr std::int64_t first_slot_byte = std::int64_t{1} << 41;
inline constexpr std::int64_t first_session_byte = std::int64_t{1} << 62;

// Each returns 0 or the error number.
[[nodiscard]] int lock_byte(int fd, LockType type, Byte byte, bool wait) noexcept;
void unlock_byte(int fd, Byte byte) noexcept;
[[nodiscard]] bool write_locked(int fd, Byte byte) noexcept;

// The byte of a session; nothing: the text is not a session's id.
[[nodiscard]] std::optional<Byte> session_byte(std::string_view id) noexcept;
[[nodiscard]] std::uint64_t random_number();
[[nodiscard]] std::int64_t coarse_clock_ns() noexcept;  // CLOCK_MONOTONIC_COARSE

struct FileId {
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  friend bool operator==(const FileId&, const FileId&) = default;
};
[[nodiscard]] FileId file_id(const struct stat& status) noexcept;
// Nothing: there is no such file.
[[nodiscard]] std::optional<FileId> file_id(const std::filesystem::path& path);

// Found or created by the process that opens the store, which holds the opening lock until done().
class SideFile {
 public:
  struct Owner {  // Owner, group and mode of the database file.
    unsigned uid = 0;
    unsigned gid = 0;
    unsigned mode = 0600;
  };
  SideFile(std::filesystem::path path, const Owner& owner);
  // If this object created the file and done() was not called, removes it: a failed opening leaves
  // nothing behind.
  ~SideFile();
  SideFile(const SideFile&) = delete;
  SideFile& operator=(const SideFile&) = delete;
  void done() noexcept;  // Releases the opening lock.

  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }
  [[nodiscard]] FileId id() const noexcept { return id_; }
  [[nodiscard]] std::string identity() const;
  [[nodiscard]] Header& header() const noexcept { return shared_->header; }
  [[nodiscard]] Bucket& bucket(std::size_t index) const noexcept { return shared_->bucket[index]; }
  [[nodiscard]] Doorbell& doorbell(std::size_t slot) const noexcept {
    return shared_->doorbell[slot];
  }
  [[nodiscard]] WriteLog& log() const noexcept { return shared_->log; }
  // The description through which doorbell slots are locked and sessions are probed.
  [[nodiscard]] const std::shared_ptr<Descriptor>& probe() const noexcept { return probe_; }

  // Every revision up to this one is decided. Another process may have raised it further.
  void raise_decided(std::uint64_t revision) const noexcept;

  // Where writers queue, nearly first come, first served, across all processes. At most one thread
  // of a process at a time.
  void enter_gate();
  void leave_gate() const noexcept;
  // Whether writers have to queue at the gate now; say_crowded() makes it so for a while. `now`:
  // coarse_clock_ns().
  [[nodiscard]] bool crowded(std::int64_t now) const noexcept;
  void say_crowded(std::int64_t now) const noexcept;

 private:
  void check_owner(const Owner& owner) const;
  void open_locked(const Owner& owner);
  void make(const Owner& owner);
  void add_log() const;
  void map();

  const std::filesystem::path path_;
  std::unique_ptr<Descriptor> gate_;
  std::shared_ptr<Descriptor> probe_;
  FileId id_;
  Shared* shared_ = nullptr;
  int turns_ = 0;  // How often in a row this process passed the gate without queueing.
  bool made_ = false;
  bool opening_ = false;
};

}  // namespace tenure::sqlite
