// space_choice.hpp: which space a command works on, and opening it.
//
// --space, then TENURE_SPACE, then a file of this user: $XDG_STATE_HOME/tenure/tenure.db, or
// ~/.local/state/tenure/tenure.db. Directories on the way are made for this user alone.
#pragma once

#include <memory>
#include <string>

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
  std::shared_ptr<Store> store;
  Space space;
};
// Throws Error for a space that exists only inside one process, and what tenure::open throws.
// Starts threads.
[[nodiscard]] OpenSpace open_space(const SpaceChoice& choice, std::string label = {});
// For reading: as above, but a file that does not exist is an error.
[[nodiscard]] OpenSpace open_existing_space(const SpaceChoice& choice);
// The store alone, without removing dead tickets.
[[nodiscard]] std::shared_ptr<Store> open_existing_store(const SpaceChoice& choice);

}  // namespace tenure::cli
