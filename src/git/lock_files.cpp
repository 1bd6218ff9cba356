#include "git/lock_files.hpp"

#include <pwd.h>
#include <sys/stat.h>

#include <array>
#include <ctime>

#include "base/duration.hpp"

namespace tenure::git {
namespace {

namespace fs = std::filesystem;

std::string user_name(uid_t user) {
  std::array<char, 4096> buffer{};
  passwd entry{};
  passwd* found = nullptr;
  if (::getpwuid_r(user, &entry, buffer.data(), buffer.size(), &found) == 0 && found != nullptr) {
    return entry.pw_name;
  }
  return std::to_string(user);
}

std::optional<std::string> describe(const std::vector<fs::path>& files,
                                    std::chrono::seconds least) {
  for (const fs::path& file : files) {
    struct stat status{};
    if (::lstat(file.c_str(), &status) != 0) continue;
    const std::chrono::seconds age{::time(nullptr) - status.st_mtim.tv_sec};
    if (age < least) continue;
    return "'" + file.string() + "' of user " + user_name(status.st_uid) + ", " +
           base::age_text(age) + " old";
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::string> describe_lock(const std::vector<fs::path>& files) {
  return describe(files, std::chrono::seconds::min());
}

std::optional<std::string> describe_stale_lock(const std::vector<fs::path>& files) {
  return describe(files, stale_lock_age);
}

// NOLINTNEXTLINE(bugprone-easily-swappable-parameters): from the narrow to the wide.
std::vector<fs::path> lock_files_of(const fs::path& git_directory, const fs::path& common_directory,
                                    const std::string& branch) {
  return {git_directory / "index.lock",
          git_directory / "HEAD.lock",
          common_directory / "packed-refs.lock",
          common_directory / "config.lock",
          common_directory / "shallow.lock",
          common_directory / "refs" / "heads" / (branch + ".lock")};
}

}  // namespace tenure::git
