// scratch.hpp: a directory that exists as long as this object.
#pragma once

#include <string>

namespace tenure::cli {

class Scratch {
 public:
  Scratch();  // In $TMPDIR, or /tmp. Throws std::system_error.
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch();
  [[nodiscard]] const std::string& path() const noexcept { return path_; }

 private:
  std::string path_;
};

}  // namespace tenure::cli
