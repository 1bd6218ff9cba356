// find_upstream(): what `git push` would push to, from the configuration of a repository.
#include <filesystem>
#include <string>
#include <string_view>

#include "git/library.hpp"
#include "git/words.hpp"
#include "tenure/git.hpp"

namespace tenure::git {
namespace {

namespace fs = std::filesystem;

std::string config_value(git_config* config, const std::string& key) {
  git_buf buffer{};
  if (git_config_get_string_buf(&buffer, config, key.c_str()) != 0) return {};
  std::string out{buffer.ptr, buffer.size};
  git_buf_dispose(&buffer);
  return out;
}

// A path in a configuration is relative to the working copy.
std::string resolved(const std::string& remote, const fs::path& root) {
  const auto path = local_path(remote);
  if (!path || remote.starts_with("file://") || remote.empty()) return remote;
  return (root / *path).lexically_normal().string();
}

std::string checked_out_branch(git_repository* repository) {
  const auto head = make<Reference>("cannot read HEAD", git_reference_lookup, repository, "HEAD");
  constexpr std::string_view heads = "refs/heads/";
  const char* const target = git_reference_symbolic_target(head.get());
  if (target == nullptr || !std::string_view{target}.starts_with(heads)) {
    throw GitError(Problem::branch_missing,
                   "no branch is checked out here: name one with --branch");
  }
  return std::string{target}.substr(heads.size());
}

}  // namespace

Upstream find_upstream(const fs::path& directory, const std::string& branch) {
  start_library();
  git_repository* opened = nullptr;
  if (git_repository_open_ext(&opened, directory.c_str(), 0, nullptr) != 0) {
    throw GitError(Problem::failed, "'" + directory.string() + "' is not in a git repository (" +
                                        last_words() + "): name a remote and a branch with " +
                                        "--remote and --branch");
  }
  const Repo repository{opened};
  const auto config =
      make<Config>("cannot read the configuration", git_repository_config_snapshot, opened);
  const char* const root = git_repository_workdir(opened);
  Upstream out;
  out.repository = root != nullptr ? root : git_repository_path(opened);
  const std::string local = branch.empty() ? checked_out_branch(opened) : branch;
  std::string name = config_value(config.get(), "branch." + local + ".remote");
  if (name.empty()) name = "origin";
  std::string merge = config_value(config.get(), "branch." + local + ".merge");
  constexpr std::string_view heads = "refs/heads/";
  if (merge.starts_with(heads)) merge.erase(0, heads.size());
  out.branch = branch.empty() && !merge.empty() ? merge : local;
  out.remote = resolved(config_value(config.get(), "remote." + name + ".url"), out.repository);
  out.push_remote =
      resolved(config_value(config.get(), "remote." + name + ".pushurl"), out.repository);
  if (out.remote.empty()) {
    throw GitError(Problem::failed, "the repository '" + out.repository.string() +
                                        "' has no remote '" + name +
                                        "': add one, or name one with --remote");
  }
  return out;
}

}  // namespace tenure::git
