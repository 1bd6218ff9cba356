// opening.hpp: finds or creates the files of a store, and manages the epoch of its revisions.
//
// A revision is epoch << 30 | count. The count is kept in the side file only, so it costs no row.
// The epoch is in the database, and is raised and synced before any of its revisions is used,
// whenever a count may have been lost: after a boot, in a copied or replaced file, with a new side
// file, and before the count runs out. So no revision is used twice, even after power loss.
//
//   recorded in tenure_meta: epoch, side (identity of the side file), boot, device, inode, base
//
// Thread safety: one opening at a time in a process (opening_mutex); processes exclude each other
// with the opening byte of the side file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "base/boot_clock.hpp"
#include "store/sqlite/connection.hpp"
#include "store/sqlite/options.hpp"
#include "store/sqlite/side_file.hpp"

namespace tenure::sqlite {

inline constexpr unsigned count_bits = 30;
inline constexpr std::uint64_t count_mask = (std::uint64_t{1} << count_bits) - 1;

struct Opened {
  DatabaseLocation location;
  FileId file;
  std::shared_ptr<SideFile> side;
  std::unique_ptr<Connection> full;  // The connection that was used for opening.
};

// Opens all files, or throws and leaves everything as it was.
[[nodiscard]] Opened open_files(const std::filesystem::path& path, const SqliteOptions& options);

// For a writer whose count runs out. The caller is at the gate.
void raise_epoch(Connection& full, SideFile& side);

using base::boot_ns;
[[nodiscard]] std::int64_t wall_clock_ns() noexcept;

}  // namespace tenure::sqlite
