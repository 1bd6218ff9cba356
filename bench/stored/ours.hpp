// ours.hpp: the space that is measured.
#pragma once

#include <filesystem>

#include "bench/names.hpp"
#include "tenure/claim.hpp"
#include "tenure/hold.hpp"
#include "tenure/space.hpp"

namespace tenure::bench::stored {

[[nodiscard]] inline Space open_file(const std::filesystem::path& file) {
  return open("sqlite:" + file.string());
}

// release() and not the destructor, which leaves the work to another thread.
inline void lock_and_release(const Space& space, const Request& request) {
  Hold hold = space.lock(request);
  hold.release();
}

}  // namespace tenure::bench::stored
