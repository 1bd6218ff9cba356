#include "git/library.hpp"

#include <array>

#include "git/words.hpp"

namespace tenure::git {

void start_library() {
  static const int started = [] {
    const int result = git_libgit2_init();
    // Extensions that change nothing about objects, refs or the index. Others stay refused.
    std::array<const char*, 2> extensions{"worktreeconfig", "preciousobjects"};
    git_libgit2_opts(GIT_OPT_SET_EXTENSIONS, extensions.data(), extensions.size());
    return result;
  }();
  check(started, "cannot start libgit2");
}

std::string last_words() {
  const git_error* const error = git_error_last();
  return error == nullptr || error->message == nullptr ? "no reason given" : error->message;
}

void check(int result, std::string_view what) {
  if (result >= 0) return;
  std::string message{what};
  message += ": ";
  message += last_words();
  if (says_disk_full(message)) {  // libgit2 appends the text of errno.
    throw GitError(Problem::disk_full, message + ": free some space, then try again");
  }
  throw GitError(Problem::failed, message);
}

std::string text_of(const git_oid& id) {
  std::array<char, GIT_OID_HEXSZ + 1> text{};
  return git_oid_tostr(text.data(), text.size(), &id);
}

git_oid oid_of(std::string_view hex) {
  git_oid id{};
  if (hex.size() != GIT_OID_HEXSZ || git_oid_fromstrn(&id, hex.data(), hex.size()) != 0) {
    throw GitError(Problem::failed, "'" + std::string{hex} + "' is not the id of a commit");
  }
  return id;
}

Commit commit_of(git_repository* repository, const git_oid& id) {
  return make<Commit>("cannot read commit " + text_of(id), git_commit_lookup, repository, &id);
}

Tree tree_of(git_repository* repository, const git_oid& commit) {
  const Commit of = commit_of(repository, commit);
  return make<Tree>("cannot read the files of commit " + text_of(commit), git_commit_tree,
                    of.get());
}

}  // namespace tenure::git
