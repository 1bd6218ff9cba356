#include "git/files.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <iterator>

#include "process/descriptor.hpp"
#include "tenure/git.hpp"

namespace tenure::git {

void fail_file(std::string_view what, const std::filesystem::path& path, std::error_code error) {
  const bool full = error == std::errc::no_space_on_device || error.value() == EDQUOT;
  throw GitError(full ? Problem::disk_full : Problem::failed,
                 "cannot " + std::string{what} + " '" + path.string() + "': " + error.message() +
                     (full ? ": free some space, then try again" : ""));
}

void write_file(const std::filesystem::path& path, std::string_view text) {
  const auto fail = [&path] { fail_file("write", path, {errno, std::generic_category()}); };
  const process::Descriptor file{
      ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600)};
  if (file.get() < 0) fail();
  while (!text.empty()) {
    const ssize_t written = ::write(file.get(), text.data(), text.size());
    if (written < 0 && errno != EINTR) fail();
    if (written > 0) text.remove_prefix(static_cast<std::size_t>(written));
  }
}

std::string read_file(const std::filesystem::path& path) {
  std::ifstream in{path, std::ios::binary};
  return {std::istreambuf_iterator<char>{in}, {}};
}

void make_directories(const std::filesystem::path& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) fail_file("create", path, error);
}

void remove_tree(const std::filesystem::path& path) {
  std::error_code error;
  std::filesystem::remove_all(path, error);
  if (!error) return;
  // Build tools make directories that their owner cannot write.
  std::error_code ignored;
  using Walk = std::filesystem::recursive_directory_iterator;
  for (Walk at{path, ignored}; at != Walk{}; at.increment(ignored)) {
    if (at->is_symlink(ignored) || !at->is_directory(ignored)) continue;
    std::filesystem::permissions(at->path(), std::filesystem::perms::owner_all,
                                 std::filesystem::perm_options::add, ignored);
  }
  error.clear();
  std::filesystem::remove_all(path, error);
  if (error) fail_file("remove", path, error);
}

}  // namespace tenure::git
