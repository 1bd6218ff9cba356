// checks.hpp: checks whether a path can be a store, before anything is created or changed. Each
// refusal is one StoreError that says what is wrong, where, and what to do.
//
// Only SQLite opens the database file: closing any other descriptor of it would drop all locks of
// the process on that file.
#pragma once

#include <filesystem>

#include "store/sqlite/connection.hpp"
#include "store/sqlite/options.hpp"
#include "store/sqlite/side_file.hpp"

namespace tenure::sqlite {

// What is at the path. An absent or empty file means that a store is to be created.
struct Found {
  // Absolute, without symbolic links: the name of the side file is derived from it.
  std::filesystem::path path;
  bool exists = false;
  bool empty = true;
  SideFile::Owner owner;
};

[[nodiscard]] Found check_path(const std::filesystem::path& path, const SqliteOptions& options);

// Throws unless the header of the file says that it is a store of this version.
void check_identity(const DatabaseLocation& location);

// The name of the file system, for `tenure doctor`.
[[nodiscard]] std::string file_system_name(const std::filesystem::path& path);

}  // namespace tenure::sqlite
