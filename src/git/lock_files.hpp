// lock_files.hpp: lock files that git left, or holds, in a repository that is not ours alone. They
// are reported, never removed.
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace tenure::git {

// Younger ones may belong to a git that runs.
inline constexpr std::chrono::seconds stale_lock_age{10};

// Of the first of them that exists: "'/x/index.lock' of user ann, 3h12m old".
[[nodiscard]] std::optional<std::string> describe_lock(
    const std::vector<std::filesystem::path>& files);
// The same for one that is at least as old as stale_lock_age.
[[nodiscard]] std::optional<std::string> describe_stale_lock(
    const std::vector<std::filesystem::path>& files);

// All that could stop git in the repository of a working copy, on that branch.
[[nodiscard]] std::vector<std::filesystem::path> lock_files_of(
    const std::filesystem::path& git_directory, const std::filesystem::path& common_directory,
    const std::string& branch);

}  // namespace tenure::git
