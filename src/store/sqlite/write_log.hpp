// write_log.hpp: the keys that were written last, by any process, in the mapped side file. A
// doorbell says that some key of a bucket was written; the log says which key, so that only its
// watches are notified.
//
// The log is a ring: entry n is in slot n % slots. A revision has one entry per written key, in
// order. There is one writer at a time, inside its SQLite write transaction; the transaction may
// still be rolled back. Readers do not block the writer: they detect an entry that was overwritten
// while they read it.
//
// A reader must not take a missing entry for "nothing was written": versions before 2 of the side
// file have no log, and a process of such a version may still write. Every revision has an entry,
// so a gap between revisions shows that entries are missing.
//
// Memory order: a slot is written after `count` has passed its old entry, each word with release
// order and read with acquire order. A reader that sees a new word therefore also sees that the old
// entry is gone.
//
// Thread safety: add() inside the write transaction; the rest from any thread.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace tenure::sqlite {

class WriteLog {
 public:
  static constexpr std::size_t slots = 1024;
  static constexpr std::size_t max_key = 240;  // A longer key is truncated to this.

  struct Entry {
    std::uint64_t revision = 0;
    std::string key;
    bool whole = false;
  };

  void add(std::string_view key, std::uint64_t revision) noexcept;
  [[nodiscard]] std::uint64_t count() const noexcept { return count_.load(); }
  // False: it was overwritten. `index` must be below count().
  [[nodiscard]] bool read(std::uint64_t index, Entry& entry) const;

 private:
  struct Slot {
    std::atomic<std::uint64_t> revision;
    std::atomic<std::uint64_t> size;
    std::array<std::atomic<std::uint64_t>, max_key / sizeof(std::uint64_t)> key;
  };
  static_assert(sizeof(Slot) == 256);

  std::atomic<std::uint64_t> count_;
  std::array<Slot, slots> slot_;
};

}  // namespace tenure::sqlite
