// write_log.hpp: the keys that were written last, by any process, in the mapped side file. A bell
// says that something in a bucket was written; the log says what, so that only the watches of that
// key are told.
//
// A ring: entry n is in slot n % slots. A revision has one entry per written key, in order. One
// writer at a time, inside its SQLite write transaction; what it logs may still be rolled back.
// Readers are not in its way: an entry that is overwritten while it is read is found to be so.
//
// Whoever reads must not take a missing entry for "nothing was written": versions before 2 of the
// side file have no log, and a process of such a version may still write. Every revision has an
// entry, so a gap between revisions shows that one is missing.
//
// Memory order: a slot is written after `count` has passed its old entry, each word with release
// and read with acquire: whoever reads a new word then sees that the old entry is gone.
//
// Thread safety: add() inside the write transaction; the rest, any.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tenure::sqlite {

class WriteLog {
 public:
  static constexpr std::size_t slots = 1024;
  static constexpr std::size_t max_key = 240;  // Of a longer key only this much is there.

  struct Entry {
    std::uint64_t revision = 0;
    std::string key;
    bool whole = false;
  };

  void add(std::string_view key, std::uint64_t revision) noexcept;
  [[nodiscard]] std::uint64_t count() const noexcept { return count_.load(); }
  // Nothing: it was overwritten. Only for indexes below count().
  [[nodiscard]] std::optional<Entry> at(std::uint64_t index) const;

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
