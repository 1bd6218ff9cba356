// source_file.hpp: files of the source tree that lie beside a test.
#pragma once

#include <filesystem>

namespace tenure::kit {

// The directory of a source file, from its __FILE__. Tests that are compiled in pieces have a path
// that is relative to their build tree; their program is in the directory `tests` of that tree.
inline std::filesystem::path directory_of(const char* file) {
  const std::filesystem::path source{file};
  if (source.is_absolute()) return source.parent_path();
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe");
  return (program.parent_path().parent_path() / source).lexically_normal().parent_path();
}

}  // namespace tenure::kit
