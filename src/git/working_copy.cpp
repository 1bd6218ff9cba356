#include "git/working_copy.hpp"

#include <algorithm>
#include <chrono>
#include <system_error>
#include <utility>
#include <vector>

#include "git/files.hpp"
#include "git/lock_files.hpp"

namespace tenure::git {
namespace {

constexpr std::size_t max_shown_files = 5;
// Where the working copy is to go, while follow() brings it there: a process that is killed leaves
// files that are neither here nor there, and the remote may be elsewhere when the next one comes.
// A file in its git directory.
constexpr const char* following = "tenure-following";

std::string list_of(const std::vector<std::string>& files) {
  std::string out;
  for (std::size_t i = 0; i < std::min(files.size(), max_shown_files); ++i) {
    out += (i == 0 ? "'" : ", '") + files[i] + "'";
  }
  if (files.size() > max_shown_files) {
    out += " and " + std::to_string(files.size() - max_shown_files) + " more";
  }
  return out;
}

int note_conflict(git_checkout_notify_t /*why*/, const char* path, const git_diff_file* /*base*/,
                  const git_diff_file* /*target*/, const git_diff_file* /*there*/, void* files) {
  static_cast<std::vector<std::string>*>(files)->emplace_back(path);
  return 0;
}

std::vector<std::string> conflicts_in(git_index* index) {
  std::vector<std::string> out;
  git_index_conflict_iterator* iterator = nullptr;
  check(git_index_conflict_iterator_new(&iterator, index), "cannot read the conflicts");
  const git_index_entry* base = nullptr;
  const git_index_entry* ours = nullptr;
  const git_index_entry* theirs = nullptr;
  while (git_index_conflict_next(&base, &ours, &theirs, iterator) == 0) {
    for (const git_index_entry* const entry : {ours, theirs, base}) {
      if (entry == nullptr) continue;
      out.emplace_back(entry->path);
      break;
    }
  }
  git_index_conflict_iterator_free(iterator);
  return out;
}

}  // namespace

WorkingCopy::WorkingCopy(std::filesystem::path directory, std::string branch)
    : directory_(std::move(directory)), branch_(std::move(branch)) {
  git_repository* out = nullptr;
  if (git_repository_open_ext(&out, directory_.c_str(), GIT_REPOSITORY_OPEN_NO_SEARCH, nullptr) !=
          0 ||
      git_repository_is_bare(out) == 1) {
    const std::string why = out != nullptr ? "it is a bare repository" : last_words();
    git_repository_free(out);
    throw GitError(Problem::working_copy,
                   text() + " is not a clone: " + why + ": clone the remote there");
  }
  repository_.reset(out);
  const std::string ref = "refs/heads/" + branch_;
  const auto head = make<Reference>("cannot read HEAD of " + text(), git_reference_lookup,
                                    repository_.get(), "HEAD");
  const char* const target = git_reference_symbolic_target(head.get());
  if (target == nullptr || ref != target) {
    throw GitError(Problem::working_copy, text() + " does not have branch '" + branch_ +
                                              "' checked out: run 'git switch " + branch_ +
                                              "' there");
  }
  if (git_repository_state(repository_.get()) != GIT_REPOSITORY_STATE_NONE) {
    throw GitError(Problem::working_copy,
                   text() + " is in the middle of a merge, rebase or similar: finish or abort it");
  }
  if (git_reference_name_to_id(&head_, repository_.get(), ref.c_str()) != 0) {
    throw GitError(Problem::working_copy, text() + " has no commit yet: run 'git pull' there");
  }
}

std::vector<std::filesystem::path> WorkingCopy::lock_files() const {
  return lock_files_of(git_repository_path(repository_.get()),
                       git_repository_commondir(repository_.get()), branch_);
}

bool WorkingCopy::has_young_lock() const {
  return describe_lock(lock_files()) && !describe_stale_lock(lock_files());
}

void WorkingCopy::remove_own_locks() const {
  constexpr std::chrono::seconds longest_update{10};
  std::error_code error;
  const auto began = std::filesystem::last_write_time(note(), error);
  if (error) return;
  for (const std::filesystem::path& lock : lock_files()) {
    const auto made = std::filesystem::last_write_time(lock, error);
    if (!error && made >= began && made <= began + longest_update) {
      std::filesystem::remove(lock, error);
    }
  }
}

void WorkingCopy::check_locks() const {
  const auto lock = describe_lock(lock_files());
  if (!lock) return;
  throw GitError(Problem::locked, "another git works in the " + text() + ", or was killed there: " +
                                      *lock + ": if no git runs there, remove that file");
}

void WorkingCopy::check_behind(const Worktree& worktree, const git_oid& head) const {
  if (worktree.is_ancestor(head_, head)) return;
  throw GitError(Problem::working_copy,
                 text() + " has commits that the remote does not have: push them, or drop them " +
                     "with 'git reset --keep " + text_of(head) + "'");
}

git_oid WorkingCopy::head_tree() const {
  return *git_tree_id(tree_of(repository_.get(), head_).get());
}

git_oid WorkingCopy::snapshot(GitProgram& program, const UserSettings& settings,
                              const std::stop_token& stop) const {
  if (settings.filters) {
    const std::filesystem::path index =
        std::filesystem::path{git_repository_path(repository_.get())} / "tenure-index";
    const std::vector<std::string> other{"GIT_INDEX_FILE=" + index.string()};
    const auto git = [&](std::vector<std::string> arguments) {
      return program.expect(
          {.arguments = std::move(arguments), .directory = directory_, .environment = other}, stop);
    };
    git({"read-tree", text_of(head_)});
    git({"add", "-A"});
    std::string tree = git({"write-tree"});
    remove_tree(index);
    while (tree.ends_with('\n')) tree.pop_back();
    return oid_of(tree);
  }
  // In memory only: the index file stays as it is.
  const auto index =
      make<Index>("cannot open the index of " + text(), git_repository_index, repository_.get());
  check(git_index_read(index.get(), 1), "cannot read the index of " + text());
  if (git_index_has_conflicts(index.get()) == 1) {
    throw GitError(Problem::working_copy, text() + " has unresolved conflicts in " +
                                              list_of(conflicts_in(index.get())) +
                                              ": resolve them");
  }
  check(git_index_add_all(index.get(), nullptr, GIT_INDEX_ADD_DEFAULT, nullptr, nullptr),
        "cannot add the files of " + text());
  git_oid tree{};
  check(git_index_write_tree_to(&tree, index.get(), repository_.get()),
        "cannot write the tree of " + text());
  return tree;
}

// NOLINTNEXTLINE(bugprone-easily-swappable-parameters): a commit and a tree.
git_oid WorkingCopy::merge(const git_oid& base, const git_oid& tree) const {
  if (git_oid_equal(&base, &head_) != 0) return tree;
  const Tree ancestor = tree_of(repository_.get(), head_);
  const Tree ours = tree_of(repository_.get(), base);
  const auto theirs =
      make<Tree>("cannot read the files of " + text(), git_tree_lookup, repository_.get(), &tree);
  const auto merged = make<Index>("cannot merge the " + text(), git_merge_trees, repository_.get(),
                                  ancestor.get(), ours.get(), theirs.get(), nullptr);
  if (git_index_has_conflicts(merged.get()) == 1) {
    throw GitError(Problem::working_copy,
                   "the " + text() + " and the remote changed the same lines of " +
                       list_of(conflicts_in(merged.get())) +
                       ": commit, then run 'git pull --rebase' there and resolve them");
  }
  git_oid out{};
  check(git_index_write_tree_to(&out, merged.get(), repository_.get()), "cannot write a tree");
  return out;
}

// NOLINTNEXTLINE(bugprone-easily-swappable-parameters): the new one first.
void WorkingCopy::check_out(const git_oid& commit, const git_oid& had,
                            unsigned int strategy) const {
  std::vector<std::string> files;
  git_checkout_options options{};
  check(git_checkout_options_init(&options, GIT_CHECKOUT_OPTIONS_VERSION), "cannot check out");
  options.checkout_strategy = strategy;
  options.notify_flags = GIT_CHECKOUT_NOTIFY_CONFLICT;
  options.notify_cb = &note_conflict;
  options.notify_payload = &files;
  const auto baseline =
      make<Tree>("cannot read a tree of " + text(), git_tree_lookup, repository_.get(), &had);
  options.baseline = baseline.get();
  const Tree target = tree_of(repository_.get(), commit);
  const auto* const object = reinterpret_cast<const git_object*>(target.get());  // NOLINT
  const int result = git_checkout_tree(repository_.get(), object, &options);
  if (result == GIT_ECONFLICT || !files.empty()) {
    throw GitError(Problem::working_copy, "uncommitted changes in the " + text() +
                                              " would be overwritten: " + list_of(files) +
                                              ": commit them with checkpoint(), or move them away");
  }
  check(result, "cannot update the " + text());
}

void WorkingCopy::rehearse(const git_oid& commit, const git_oid& had) const {
  check_out(commit, had, GIT_CHECKOUT_SAFE | GIT_CHECKOUT_DRY_RUN | GIT_CHECKOUT_DONT_WRITE_INDEX);
}

void WorkingCopy::follow(const git_oid& commit, const git_oid& had) {
  if (git_oid_equal(&commit, &head_) != 0) return;
  check_locks();
  write_file(note(), text_of(commit));
  check_out(commit, had, GIT_CHECKOUT_SAFE);
  move_branch(commit);
  remove_tree(note());
}

std::filesystem::path WorkingCopy::note() const {
  return std::filesystem::path{git_repository_path(repository_.get())} / following;
}

void WorkingCopy::move_branch(const git_oid& commit) {
  const std::string ref = "refs/heads/" + branch_;
  (void)make<Reference>("cannot move the branch of " + text(), git_reference_create_matching,
                        repository_.get(), ref.c_str(), &commit, 1, &head_, "tenure: fast-forward");
  head_ = commit;
}

// Whether the file is as before the update, as after it, or has the first bytes of that.
bool WorkingCopy::is_left_by_follow(const git_diff_delta& delta) const {
  const std::filesystem::path file = directory_ / delta.new_file.path;
  std::error_code error;
  const auto status = std::filesystem::symlink_status(file, error);
  if (!std::filesystem::exists(status)) return true;
  if (!std::filesystem::is_regular_file(status)) return false;
  const std::string there = read_file(file);
  if (there.size() != std::filesystem::file_size(file, error)) return false;
  const auto content = [&](const git_diff_file& of) -> std::string {
    if ((of.flags & GIT_DIFF_FLAG_EXISTS) == 0) return {};
    const auto blob =
        make<Blob>("cannot read a file of " + text(), git_blob_lookup, repository_.get(), &of.id);
    return {static_cast<const char*>(git_blob_rawcontent(blob.get())),
            static_cast<std::size_t>(git_blob_rawsize(blob.get()))};
  };
  return there == content(delta.old_file) || content(delta.new_file).starts_with(there);
}

void WorkingCopy::finish_follow() {
  const std::string noted = read_file(note());
  if (noted.empty()) return;
  git_oid commit{};
  // Half a note: the update itself had not begun.
  const bool whole = noted.size() == GIT_OID_HEXSZ && git_oid_fromstr(&commit, noted.c_str()) == 0;
  if (whole && git_graph_descendant_of(repository_.get(), &commit, &head_) == 1) {
    const Tree before = tree_of(repository_.get(), head_);
    const Tree after = tree_of(repository_.get(), commit);
    const auto diff = make<Diff>("cannot compare two trees of " + text(), git_diff_tree_to_tree,
                                 repository_.get(), before.get(), after.get(), nullptr);
    std::vector<char*> paths;
    for (std::size_t i = 0; i < git_diff_num_deltas(diff.get()); ++i) {
      const git_diff_delta& delta = *git_diff_get_delta(diff.get(), i);
      if (!is_left_by_follow(delta)) return;  // A person's: the transaction is refused for it.
      paths.push_back(const_cast<char*>(delta.new_file.path));  // NOLINT: it is only read.
    }
    git_checkout_options options{};
    check(git_checkout_options_init(&options, GIT_CHECKOUT_OPTIONS_VERSION), "cannot check out");
    options.checkout_strategy = GIT_CHECKOUT_FORCE | GIT_CHECKOUT_DISABLE_PATHSPEC_MATCH;
    options.paths = {.strings = paths.data(), .count = paths.size()};
    const auto* const object = reinterpret_cast<const git_object*>(after.get());  // NOLINT
    // No paths would mean all of them.
    if (!paths.empty()) {
      check(git_checkout_tree(repository_.get(), object, &options), "cannot update the " + text());
    }
    move_branch(commit);
  }
  remove_tree(note());
}

}  // namespace tenure::git
