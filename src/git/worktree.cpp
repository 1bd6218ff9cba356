#include "git/worktree.hpp"

#include <filesystem>
#include <ranges>
#include <system_error>
#include <utility>
#include <vector>

#include "git/files.hpp"
#include "git/words.hpp"

namespace tenure::git {
namespace {

namespace fs = std::filesystem;

// git does not know of empty directories, but a transform would see them.
void remove_empty_directories(const fs::path& root) {
  std::vector<fs::path> directories;
  std::error_code ignored;
  using Walk = fs::recursive_directory_iterator;
  for (Walk at{root, ignored}; at != Walk{}; at.increment(ignored)) {
    if (at->is_directory(ignored) && !at->is_symlink(ignored)) directories.push_back(at->path());
  }
  // The deepest first. One that is not empty stays.
  for (const fs::path& directory : directories | std::views::reverse) {
    fs::remove(directory, ignored);
  }
}

}  // namespace

Worktree::Worktree(const Slot& slot, GitProgram& program, UserSettings& settings,
                   const std::stop_token& stop)
    : slot_(slot), program_(program), settings_(settings), stop_(stop) {
  std::string core = settings.core;
  // Objects that refs of another repository will point to must survive a power loss.
  if (!slot.has_own_repository()) core += "\tfsyncobjectfiles = true\n";
  repository_ = slot.open(core);
}

std::string Worktree::git(std::vector<std::string> arguments, std::string input,
                          std::vector<std::string> environment) const {
  return program_.expect({.arguments = std::move(arguments),
                          .directory = slot_.tree(),
                          .input = std::move(input),
                          .environment = std::move(environment)},
                         stop_);
}

void Worktree::reset_to(const git_oid& commit) const {
  slot_.restore();
  git_repository_state_cleanup(repository());
  Slot::set_seen(repository(), commit);
  if (uses_filters(commit)) {
    git({"-c", "core.sparseCheckout=false", "reset", "-q", "--hard", text_of(commit)});
    git({"clean", "-ffdxq"});
    return;
  }
  git_checkout_options options{};
  check(git_checkout_options_init(&options, GIT_CHECKOUT_OPTIONS_VERSION), "cannot check out");
  options.checkout_strategy = GIT_CHECKOUT_FORCE | GIT_CHECKOUT_REMOVE_UNTRACKED |
                              GIT_CHECKOUT_REMOVE_IGNORED | GIT_CHECKOUT_RECREATE_MISSING;
  const Tree tree = tree_of(repository(), commit);
  const auto* const target = reinterpret_cast<const git_object*>(tree.get());  // NOLINT
  check(git_checkout_tree(repository(), target, &options),
        "cannot write the files of " + text_of(commit) + " to '" + slot_.tree().string() + "'");
  remove_empty_directories(slot_.tree());
}

bool Worktree::uses_filters(const git_oid& commit) const {
  if (!settings_.filters) return false;
  if (read_file(slot_.common_directory() / "info" / "attributes").contains("filter=")) return true;
  struct Search {
    git_repository* repository;
    bool found = false;
  } search{.repository = repository()};
  const auto look = [](const char* /*root*/, const git_tree_entry* entry, void* payload) {
    auto& in = *static_cast<Search*>(payload);
    if (std::string_view{git_tree_entry_name(entry)} != ".gitattributes") return 0;
    git_blob* blob = nullptr;
    if (git_blob_lookup(&blob, in.repository, git_tree_entry_id(entry)) != 0) return 0;
    const std::string_view text{static_cast<const char*>(git_blob_rawcontent(blob)),
                                static_cast<std::size_t>(git_blob_rawsize(blob))};
    in.found = in.found || text.contains("filter=");
    git_blob_free(blob);
    return in.found ? -1 : 0;  // Ends the walk.
  };
  const Tree tree = tree_of(repository(), commit);
  git_tree_walk(tree.get(), GIT_TREEWALK_PRE, look, &search);
  return search.found;
}

git_oid Worktree::stage() const {
  if (settings_.filters) git({"add", "-A"});
  const auto index = make<Index>("cannot open the index", git_repository_index, repository());
  check(git_index_read(index.get(), settings_.filters ? 1 : 0), "cannot read the index");
  if (!settings_.filters) {
    check(git_index_add_all(index.get(), nullptr, GIT_INDEX_ADD_DEFAULT, nullptr, nullptr),
          "cannot add the files of '" + slot_.tree().string() + "'");
    check(git_index_write(index.get()), "cannot write the index");
  }
  git_oid tree{};
  check(git_index_write_tree(&tree, index.get()), "cannot write the tree of the new commit");
  return tree;
}

void Worktree::load(const git_oid& tree) const {
  if (!by_git()) return;  // libgit2 makes commits from trees, not from files.
  git({"-c", "core.sparseCheckout=false", "read-tree", "--reset", "-u", text_of(tree)});
  git({"clean", "-ffdxq"});
}

fs::path Worktree::hooks() const {
  if (settings_.hooks_path.empty()) return slot_.common_directory() / "hooks";
  return slot_.tree() / settings_.hooks_path;
}

bool Worktree::by_git() const { return settings_.signs || has_commit_hooks(hooks()); }

bool Worktree::pushes_by_git() const { return settings_.special_pushes || has_push_hook(hooks()); }

git_oid Worktree::commit(const CommitPlan& plan) {
  if (by_git()) return commit_by_git(plan);
  read_identities(plan);
  const Identity by = settings_.committer.value_or(Identity{});
  const Identity from = plan.author ? *plan.author : settings_.author.value_or(Identity{});
  const auto author = make<Signature>("cannot use the author's name", git_signature_now,
                                      from.name.c_str(), from.email.c_str());
  const auto committer = make<Signature>("cannot use the committer's name", git_signature_now,
                                         by.name.c_str(), by.email.c_str());
  const Commit parent = commit_of(repository(), plan.parent);
  const auto tree =
      make<Tree>("cannot read the new tree", git_tree_lookup, repository(), &plan.tree);
  git_oid id{};
  const git_commit* parents = parent.get();
  check(git_commit_create(&id, repository(), nullptr, author.get(), committer.get(), nullptr,
                          plan.message.c_str(), tree.get(), 1, &parents),
        "cannot write the commit");
  return id;
}

void Worktree::read_identities(const CommitPlan& plan) {
  const auto read = [this](const char* variable) {
    return read_identity(program_, slot_.tree(), variable, stop_);
  };
  if (!plan.author && !settings_.author) settings_.author = read("GIT_AUTHOR_IDENT");
  if (settings_.committer) return;
  try {
    settings_.committer = read("GIT_COMMITTER_IDENT");
  } catch (const GitError& error) {
    // A service may have no identity of its own.
    if (!plan.author || error.problem() == Problem::stopped) throw;
    settings_.committer = *plan.author;
  }
}

// A hook may change the files, so the tree of the commit may be another than planned.
git_oid Worktree::commit_by_git(const CommitPlan& plan) const {
  std::vector<std::string> who;
  if (plan.author) {
    who = {"GIT_AUTHOR_NAME=" + plan.author->name, "GIT_AUTHOR_EMAIL=" + plan.author->email};
  }
  try {
    git({"-c", "core.sparseCheckout=false", "commit", "-q", "-F", "-"}, plan.message, who);
  } catch (const GitError& error) {
    if (error.problem() != Problem::failed && error.problem() != Problem::refused) throw;
    throw GitError(Problem::rejected_here,
                   std::string{error.what()} +
                       ": a hook or the signing program of this machine did not accept the commit");
  }
  git_oid id{};
  check(git_reference_name_to_id(&id, repository(), "HEAD"), "cannot read the new commit");
  // HEAD stays at what the remote has until the push is accepted.
  Slot::set_seen(repository(), plan.parent);
  return id;
}

// NOLINTNEXTLINE(bugprone-easily-swappable-parameters): a commit and a tree.
std::string Worktree::patch(const git_oid& from_commit, const git_oid& to_tree) const {
  const Tree from = tree_of(repository(), from_commit);
  const auto to = make<Tree>("cannot read the new tree", git_tree_lookup, repository(), &to_tree);
  git_diff_options options{};
  check(git_diff_options_init(&options, GIT_DIFF_OPTIONS_VERSION), "cannot compare");
  options.flags = GIT_DIFF_SHOW_BINARY;
  const auto diff = make<Diff>("cannot compare the files", git_diff_tree_to_tree, repository(),
                               from.get(), to.get(), &options);
  git_buf text{};
  check(git_diff_to_buf(&text, diff.get(), GIT_DIFF_FORMAT_PATCH), "cannot print the changes");
  std::string out{text.ptr, text.size};
  git_buf_dispose(&text);
  return out;
}

bool Worktree::is_ancestor(const git_oid& old, const git_oid& head) const {
  if (git_oid_equal(&old, &head) != 0) return true;
  if (git_repository_is_shallow(repository()) != 1) {
    const int result = git_graph_descendant_of(repository(), &head, &old);
    if (result >= 0) return result == 1;
  }
  // libgit2 1.5 cannot walk where the history is cut off.
  const GitAnswer answer =
      program_.run({.arguments = {"merge-base", "--is-ancestor", text_of(old), text_of(head)},
                    .directory = slot_.tree()},
                   stop_);
  return answer.ok();
}

}  // namespace tenure::git
