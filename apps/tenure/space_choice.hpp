// space_choice.hpp: which space a command works on, and opening it.
//
// --space, then TENURE_SPACE, then a file of this user: $XDG_STATE_HOME/tenure/tenure.db, or
// ~/.local/state/tenure/tenure.db. Directories on the way are made for this user alone.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tenure/space.hpp"
#include "tenure/store.hpp"

namespace tenure::cli {

struct SpaceChoice {
  std::string url;
  std::string shown;          // The same without passwords.
  std::string file;           // Of sqlite: URLs.
  bool of_this_user = false;  // No space was chosen: the file of this user.
};

// Throws Error if there is no home directory to keep a file in.
[[nodiscard]] SpaceChoice choose_space(const std::string& option);

// $XDG_STATE_HOME/tenure, or ~/.local/state/tenure. Throws Error where there is no home.
[[nodiscard]] std::string state_directory();
// For this user alone.
void make_directories(const std::string& path);

// Whether the space exists. A command that only reads should not create a file.
[[nodiscard]] bool exists(const SpaceChoice& choice);

struct OpenSpace {
  std::shared_ptr<Store> store;  // Of a sharded space: that of the path it was opened for, or null.
  Space space;

  // By the clock of the store, if there is one.
  [[nodiscard]] Instant now() const;
  // What an owner waits for at a path.
  [[nodiscard]] std::vector<TicketInfo> inspect_waits(const Owner& owner, const Path& path) const;
};
// Throws Error for a space that exists only inside one process, and what tenure::open throws.
// Starts threads. `path`: what the command locks; null: nothing that is known yet.
[[nodiscard]] OpenSpace open_space(const SpaceChoice& choice, std::string label = {},
                                   const Path* path = nullptr);
// For reading: as above, but a file that does not exist is an error.
[[nodiscard]] OpenSpace open_existing_space(const SpaceChoice& choice);
// The store alone, without removing dead tickets.
[[nodiscard]] std::shared_ptr<Store> open_existing_store(const SpaceChoice& choice);

}  // namespace tenure::cli
