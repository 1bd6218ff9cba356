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
  std::string file;           // Of sqlite: URLs.
  bool of_this_user = false;  // Nobody chose: the file of this user.
};

// Throws Error where there is no home to keep a file in.
[[nodiscard]] SpaceChoice choose_space(const std::string& option);

// Whether there is anything to open yet. What only looks should not make a file.
[[nodiscard]] bool exists(const SpaceChoice& choice);

struct OpenSpace {
  std::shared_ptr<Store> store;
  Space space;
};
// Throws Error for a space that lives inside one process, and what tenure::open throws. Starts
// threads.
[[nodiscard]] OpenSpace open_space(const SpaceChoice& choice, std::string label = {});
// To look: as above, but for a file that is not there, which is an error.
[[nodiscard]] OpenSpace open_existing_space(const SpaceChoice& choice);
// The store alone, in which nobody has cleared away the dead yet.
[[nodiscard]] std::shared_ptr<Store> open_existing_store(const SpaceChoice& choice);

}  // namespace tenure::cli
