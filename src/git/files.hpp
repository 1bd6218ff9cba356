// files.hpp: small files, and errors of the file system as GitError.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>

namespace tenure::git {

// Throws GitError; a full disk is told apart.
[[noreturn]] void fail_file(std::string_view what, const std::filesystem::path& path,
                            std::error_code error);
void write_file(const std::filesystem::path& path, std::string_view text);
// Empty where it cannot be read.
[[nodiscard]] std::string read_file(const std::filesystem::path& path);
void make_directories(const std::filesystem::path& path);
// Everything, also where a directory is read-only for its owner. Does nothing for a missing path.
void remove_tree(const std::filesystem::path& path);

}  // namespace tenure::git
