// side_file.hpp: the file beside the database: a page of counters and bells that all processes map,
// and the bytes that they lock.
//
// The database file itself can't carry locks: closing any descriptor of it would drop SQLite's own.
// All locks here are OFD locks: they belong to an open file description, so they end with the last
// process that has it, however it ends, in whatever PID namespace; a stopped process keeps its own.
//
//   what is mapped                        which bytes are locked (far behind the end of the file)
//   0      Header                         2^40          opening: by whoever makes or repairs
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

inline constexpr std::size_t doorbells = 1024;          // Processes that watch at once; more share.
inline constexpr std::size_t key_buckets = 16384;       // By hash of the key,
inline constexpr std::size_t first_byte_buckets = 256;  // by its first byte,
inline constexpr std::size_t every_key = key_buckets + first_byte_buckets;  // and one for all.
inline constexpr std::size_t buckets = every_key + 1;

struct Bucket {
  std::atomic<std::uint64_t> bits;  // Which slots (modulo 64) want to be rung.
  std::atomic<std::uint64_t> revision;
};

struct Doorbell {
  std::atomic<std::uint32_t> word;      // Goes up at each ring; its process sleeps on it.
  std::atomic<std::uint32_t> sleepers;  // Ringing costs a call of the kernel only when not zero.
  std::atomic<std::uint64_t> summary;   // Which buckets (modulo 64) it was rung for.
};

struct Header {
  std::array<char, 8> magic;
  std::uint32_t version;
  std::array<char, 32> identity;       // Random, hexadecimal: which side file this is.
  std::atomic<std::uint64_t> last;     // The last revision that was given out.
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

enum class Byte : std::int64_t {};  // Of the side file, as an offset.
enum class LockType : std::uint8_t { read = F_RDLCK, write = F_WRLCK, none = F_UNLCK };
inline constexpr Byte opening_byte{std::int64_t{1} << 40};
inline constexpr Byte gate_byte{(std::int64_t{1} << 40) + 1};
inline constexpr Byte gate_queue_byte{(std::int64_t{1} << 40) + 2};
inline constexpr std::int64_t first_slot_byte = std::int64_t{1} << 41;
inline constexpr std::int64_t first_session_byte = std::int64_t{1} << 62;

// The three things one can do with a byte. 0, or the error.
[[nodiscard]] int lock_byte(int fd, LockType type, Byte byte, bool wait) noexcept;
void unlock_byte(int fd, Byte byte) noexcept;
[[nodiscard]] bool write_locked(int fd, Byte byte) noexcept;

// The byte of a session; nothing for text that is no session's id.
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

// Made, or found, by whoever opens the store, who then holds the opening lock until done().
class SideFile {
 public:
  struct Owner {  // Who the database belongs to, and for whom it is.
    unsigned uid = 0;
    unsigned gid = 0;
    unsigned mode = 0600;
  };
  SideFile(std::filesystem::path path, const Owner& owner);
  // Removes the file when this made it and `done` was not called: whatever failed left nothing.
  ~SideFile();
  SideFile(const SideFile&) = delete;
  SideFile& operator=(const SideFile&) = delete;
  void done() noexcept;  // Gives the opening lock back.

  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }
  [[nodiscard]] FileId id() const noexcept { return id_; }
  [[nodiscard]] std::string identity() const;
  [[nodiscard]] Header& header() const noexcept { return shared_->header; }
  [[nodiscard]] Bucket& bucket(std::size_t index) const noexcept { return shared_->bucket[index]; }
  [[nodiscard]] Doorbell& doorbell(std::size_t slot) const noexcept {
    return shared_->doorbell[slot];
  }
  [[nodiscard]] WriteLog& log() const noexcept { return shared_->log; }
  // The description that doorbell slots are locked through, and death is looked for.
  [[nodiscard]] const std::shared_ptr<Descriptor>& probe() const noexcept { return probe_; }

  // Everything up to this revision is decided. Others may have got further.
  void raise_decided(std::uint64_t revision) const noexcept;

  // Where writers queue, nearly first come, first served, across all processes. One thread of a
  // process at a time.
  void enter_gate();
  void leave_gate() const noexcept;
  // Whoever writes is to come to the gate first, for a while from now on. `now`: coarse_clock_ns().
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
  int turns_ = 0;  // So often in a row without queueing.
  bool made_ = false;
  bool opening_ = false;
};

}  // namespace tenure::sqlite
