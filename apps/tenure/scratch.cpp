#include "scratch.hpp"

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "environment.hpp"

namespace tenure::cli {

Scratch::Scratch() {
  const std::string_view place = environment("TMPDIR");
  path_ = std::string{place.starts_with('/') ? place : "/tmp"} + "/tenure-XXXXXX";
  if (::mkdtemp(path_.data()) == nullptr) {
    throw std::system_error(errno, std::generic_category(),
                            "cannot create the temporary directory " + path_);
  }
}

Scratch::~Scratch() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace tenure::cli
