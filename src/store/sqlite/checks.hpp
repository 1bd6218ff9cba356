// checks.hpp: whether a path can be a store, before anything is made or touched. Each refusal is
// one StoreError that says what, where, and what to do.
//
// The database file is never opened here but by SQLite: closing a descriptor of it would drop
// SQLite's locks of the whole process.
#pragma once

#include <filesystem>

#include "store/sqlite/connection.hpp"
#include "store/sqlite/options.hpp"
#include "store/sqlite/side_file.hpp"

namespace tenure::sqlite {

// What is at the path. An absent or empty file is one to be made.
struct Found {
  std::filesystem::path path;  // Absolute, without symbolic links: the side file's name follows it.
  bool exists = false;
  bool empty = true;
  SideFile::Owner owner;
};

[[nodiscard]] Found check_path(const std::filesystem::path& path, const SqliteOptions& options);

// The file's own header says that it is a store of this version.
void check_identity(const DatabaseLocation& location);

// What `tenure doctor` calls the file system.
[[nodiscard]] std::string file_system_name(const std::filesystem::path& path);

}  // namespace tenure::sqlite
