// options.hpp: how a SQLite store is opened, where the default is not what is wanted.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace tenure::sqlite {

struct SqliteOptions {
  // The repair of `tenure doctor --new-epoch`, for when the side file was lost or a backup
  // restored: takes this side file as the right one, raises the epoch, and removes the sessions
  // that are dead and their tickets. All processes that used the store must have been stopped.
  bool new_epoch = false;

  // The rest is for tests.
  bool alone = false;               // Not shared with other openings of this process.
  std::string vfs;                  // The SQLite file system to use; empty: its default.
  std::optional<std::string> boot;  // Instead of the machine's boot id; empty: it can't be read.
  std::function<std::uint64_t(const std::string& path)> file_system;  // statfs's f_type.
  // Most pages that the database may have; 0: no limit.
  std::uint32_t max_pages = 0;
  // How often watches are checked without being rung. Longer than a test takes: a wake-up that is
  // lost is not made up for.
  std::chrono::nanoseconds check_every = std::chrono::seconds{1};
  // Called when a watch is armed, before it is looked at whether it is due already.
  std::function<void()> on_armed;

  // Whether two such openings of one file may share a store.
  [[nodiscard]] bool plain() const {
    return !new_epoch && !alone && vfs.empty() && !boot && !file_system && max_pages == 0 &&
           check_every == SqliteOptions{}.check_every && !on_armed;
  }
};

}  // namespace tenure::sqlite
