// library.hpp: libgit2, as values that free themselves, and its errors as GitError.
#pragma once

#include <git2.h>

#include <memory>
#include <string>
#include <string_view>

#include "tenure/git.hpp"

namespace tenure::git {

template <class T, void (*free_it)(T*)>
struct Freed {
  void operator()(T* pointer) const noexcept { free_it(pointer); }
};
template <class T, void (*free_it)(T*)>
using Owned = std::unique_ptr<T, Freed<T, free_it>>;

using Repo = Owned<git_repository, git_repository_free>;
using Index = Owned<git_index, git_index_free>;
using Tree = Owned<git_tree, git_tree_free>;
using Commit = Owned<git_commit, git_commit_free>;
using Blob = Owned<git_blob, git_blob_free>;
using Diff = Owned<git_diff, git_diff_free>;
using Config = Owned<git_config, git_config_free>;
using Reference = Owned<git_reference, git_reference_free>;
using Signature = Owned<git_signature, git_signature_free>;

// Before any call of libgit2. Any thread, any number of times.
void start_library();

// What libgit2 said about the call that failed last on this thread.
[[nodiscard]] std::string last_words();

// Throws for a negative result: `what` failed. A full disk is told apart.
void check(int result, std::string_view what);

// check() for a call that makes an object: make(git_tree_lookup, "...", repository, &id).
template <class Handle, class Function, class... Arguments>
[[nodiscard]] Handle make(std::string_view what, Function function, Arguments... arguments) {
  typename Handle::pointer out = nullptr;
  check(function(&out, arguments...), what);
  return Handle{out};
}

[[nodiscard]] std::string text_of(const git_oid& id);
[[nodiscard]] git_oid oid_of(std::string_view hex);  // Throws for a text that is no id.

// Both throw where there is no such object.
[[nodiscard]] Commit commit_of(git_repository* repository, const git_oid& id);
[[nodiscard]] Tree tree_of(git_repository* repository, const git_oid& commit);

}  // namespace tenure::git
