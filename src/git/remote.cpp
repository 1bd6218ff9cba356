#include "git/remote.hpp"

#include <filesystem>
#include <utility>
#include <vector>

#include "git/files.hpp"
#include "git/local_push.hpp"
#include "git/lock_files.hpp"

namespace tenure::git {
namespace {

namespace fs = std::filesystem;

// A daemon that cleans up would outlive the call; in the foreground it ends with it.
const std::vector<std::string> in_foreground{"-c", "gc.autoDetach=false", "-c",
                                             "maintenance.autoDetach=false"};

std::vector<std::string> words(std::vector<std::string> first,
                               const std::vector<std::string>& rest) {
  first.insert(first.end(), rest.begin(), rest.end());
  return first;
}

// Null: not a repository that libgit2 can open; git then says why.
Repo open_quietly(const fs::path& path) {
  git_repository* out = nullptr;
  // git tries these, too.
  for (const fs::path& candidate : {path / ".git", path, fs::path{path.string() + ".git"}}) {
    if (git_repository_open_ext(&out, candidate.c_str(), GIT_REPOSITORY_OPEN_NO_SEARCH, nullptr) ==
        0) {
      return Repo{out};
    }
  }
  return nullptr;
}

}  // namespace

RemoteBranch::RemoteBranch(std::string remote, std::string push_remote, std::string branch)
    : remote_(std::move(remote)), push_remote_(std::move(push_remote)), branch_(std::move(branch)) {
  // git gets absolute paths: it runs in another directory.
  const auto absolute = [](std::string& text) {
    const auto path = local_path(text);
    if (path && !text.starts_with("file://")) text = fs::absolute(*path).lexically_normal();
  };
  absolute(remote_);
  if (push_remote_.empty()) push_remote_ = remote_;
  absolute(push_remote_);
  path_ = local_path(remote_);
}

std::string RemoteBranch::text() const {
  return "branch '" + branch_ + "' of '" + shown_remote(remote_) + "'";
}

std::string RemoteBranch::without_secrets(std::string text) const {
  for (const std::string& secret : {remote_, push_remote_}) {
    const std::string shown = shown_remote(secret);
    if (shown == secret) continue;
    for (std::size_t at = text.find(secret); at != std::string::npos; at = text.find(secret, at)) {
      text.replace(at, secret.size(), shown);
    }
  }
  return text;
}

std::optional<fs::path> RemoteBranch::objects() const {
  if (!path_) return std::nullopt;
  const Repo repository = open_quietly(*path_);
  if (repository == nullptr) return std::nullopt;
  return fs::path{git_repository_commondir(repository.get())} / "objects";
}

// Null: git has to look.
std::optional<git_oid> RemoteBranch::read_here() const {
  if (!path_) return std::nullopt;
  const Repo repository = open_quietly(*path_);
  if (repository == nullptr) return std::nullopt;
  git_oid id{};
  const std::string ref = "refs/heads/" + branch_;
  if (git_reference_name_to_id(&id, repository.get(), ref.c_str()) != 0) return std::nullopt;
  return id;
}

git_oid RemoteBranch::fetch(const Worktree& worktree, GitProgram& program,
                            const std::stop_token& stop) const {
  git_repository* const repository = worktree.repository();
  if (const std::optional<git_oid> here = read_here()) {
    git_commit* known = nullptr;
    if (git_commit_lookup(&known, repository, &*here) == 0) {
      git_commit_free(known);
      // Of a repository of our own the objects are the remote's. In another one, an object that is
      // there without a ref may be without what it refers to, unless we left it there ourselves.
      const std::optional<git_oid> seen = Slot::seen(repository);
      if (worktree.slot().has_own_repository() || (seen && git_oid_equal(&*seen, &*here) != 0)) {
        return *here;
      }
    }
  }
  std::vector<std::string> arguments =
      words(in_foreground, {"fetch", "-q", "--no-tags", "--no-recurse-submodules"});
  const bool first = !Slot::seen(repository).has_value();
  if (first && worktree.slot().has_own_repository()) arguments.emplace_back("--depth=1");
  arguments = words(std::move(arguments), {"--", remote_, "refs/heads/" + branch_});
  const GitAnswer answer =
      program.run({.arguments = arguments, .directory = worktree.slot().tree()}, stop);
  if (!answer.ok()) {
    const Problem problem = problem_in(answer.errors);
    if (problem == Problem::branch_missing) fail_missing(program, worktree, stop);
    throw GitError(problem,
                   "cannot read " + text() + ": " + without_secrets(essence(answer.errors)));
  }
  const std::string fetched = read_file(worktree.slot().git_directory() / "FETCH_HEAD");
  return oid_of(std::string_view{fetched}.substr(0, GIT_OID_HEXSZ));
}

void RemoteBranch::fail_missing(GitProgram& program, const Worktree& worktree,
                                const std::stop_token& stop) const {
  const std::string heads = program.expect(
      {.arguments = {"ls-remote", "--heads", "--", remote_}, .directory = worktree.slot().tree()},
      stop);
  if (heads.empty()) {
    throw GitError(Problem::repository_empty,
                   "'" + shown_remote(remote_) +
                       "' has no commits: push a first one, such as 'git " +
                       "commit --allow-empty -m Start && git push " + shown_remote(remote_) +
                       " HEAD:" + branch_ + "'");
  }
  throw GitError(Problem::branch_missing,
                 "'" + shown_remote(remote_) + "' has no branch '" + branch_ +
                     "': push it, or name one that 'git ls-remote --heads' lists");
}

RemoteBranch::Push RemoteBranch::push(const Worktree& worktree, GitProgram& program,
                                      const git_oid& from, const git_oid& to, bool maintain,
                                      const std::stop_token& stop) const {
  const std::string ref = "refs/heads/" + branch_;
  const auto here = local_path(push_remote_);
  if (const Repo opened = here && !worktree.pushes_by_git() ? open_quietly(*here) : nullptr) {
    const GitAnswer answer =
        push_here({.remote = git_repository_path(opened.get()),
                   .ref = ref,
                   .from = from,
                   .to = to,
                   .maintain = maintain},
                  worktree.repository(), program, worktree.slot().tree(), stop);
    return {.verdict = read_push(answer.status, answer.output, answer.errors),
            .words = essence(answer.errors + "\n" + answer.output)};
  }
  std::vector<std::string> arguments =
      words(in_foreground, {"push", "--porcelain", "--no-follow-tags", "--recurse-submodules=no",
                            // An exact comparison: also if the branch was set back.
                            "--force-with-lease=" + ref + ":" + text_of(from)});
  if (here) {
    arguments.emplace_back(
        "--receive-pack=git -c gc.autoDetach=false -c "
        "maintenance.autoDetach=false receive-pack");
  }
  arguments = words(std::move(arguments), {"--", push_remote_, text_of(to) + ":" + ref});
  const GitAnswer answer =
      program.run({.arguments = arguments, .directory = worktree.slot().tree()}, stop);
  return {.verdict = read_push(answer.status, answer.output, answer.errors),
          .words = without_secrets(essence(answer.errors + "\n" + answer.output))};
}

std::optional<std::string> RemoteBranch::stale_lock() const {
  const auto path = local_path(push_remote_);
  if (!path) return std::nullopt;
  const Repo repository = open_quietly(*path);
  if (repository == nullptr) return std::nullopt;
  const fs::path common = git_repository_commondir(repository.get());
  return describe_stale_lock({common / "refs" / "heads" / (branch_ + ".lock"),
                              common / "packed-refs.lock", common / "HEAD.lock"});
}

}  // namespace tenure::git
