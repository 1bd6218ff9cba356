// options.hpp: options for opening a SQLite store, for repairs and tests.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace tenure::sqlite {

struct SqliteOptions {
  // The repair of `tenure doctor --new-epoch`, for when the side file was lost or a backup was
  // restored: accepts this side file, raises the epoch, and removes dead sessions and their
  // tickets. All processes that used the store must have been stopped.
  bool new_epoch = false;

  // The rest is for tests.
  bool alone = false;  // Not shared with other openings of this process.
  std::string vfs;     // The SQLite file system (VFS); empty: SQLite's default.
  // Instead of the machine's boot id; empty: the boot id can't be read.
  std::optional<std::string> boot;
  // Instead of f_type of statfs(2).
  std::function<std::uint64_t(const std::string& path)> file_system;
  // The maximum number of pages of the database; 0: no limit.
  std::uint32_t max_pages = 0;
  // How often watches are checked without being rung. A test sets it to more than its own duration,
  // so that the check does not make up for a lost wake-up.
  std::chrono::nanoseconds check_every = std::chrono::seconds{1};
  // Called right before a watch is armed; after that, the store checks whether it is due already.
  std::function<void()> on_arming;

  // Whether two openings of one file with these options may share a store.
  [[nodiscard]] bool plain() const {
    return !new_epoch && !alone && vfs.empty() && !boot && !file_system && max_pages == 0 &&
           check_every == SqliteOptions{}.check_every && !on_arming;
  }
};

}  // namespace tenure::sqlite
