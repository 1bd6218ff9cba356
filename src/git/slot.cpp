#include "git/slot.hpp"

#include <fcntl.h>
#include <git2/sys/repository.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdlib>
#include <system_error>
#include <utility>

#include "git/files.hpp"

namespace tenure::git {
namespace {

namespace fs = std::filesystem;

constexpr const char* unborn = "ref: refs/heads/tenure-nothing-seen-yet\n";

// Null: another process has it.
std::optional<process::Descriptor> try_lock_file(const fs::path& path) {
  for (;;) {
    process::Descriptor file{::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)};
    if (file.get() < 0) fail_file("open", path, {errno, std::generic_category()});
    if (::flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
      if (errno == EWOULDBLOCK) return std::nullopt;
      fail_file("lock", path, {errno, std::generic_category()});
    }
    struct stat ours{};
    struct stat there{};
    // Somebody may have removed the directory between the two calls.
    if (::fstat(file.get(), &ours) == 0 && ::stat(path.c_str(), &there) == 0 &&
        ours.st_ino == there.st_ino) {
      return file;
    }
    make_directories(path.parent_path());
  }
}

void remove_matching(const fs::path& directory, bool (*matches)(const std::string& name)) {
  std::error_code ignored;
  using Walk = fs::recursive_directory_iterator;
  for (Walk at{directory, ignored}; at != Walk{}; at.increment(ignored)) {
    if (ignored) return;
    if (!at->is_directory(ignored) && matches(at->path().filename().string())) {
      std::error_code gone;
      fs::remove(at->path(), gone);
    }
  }
}

bool is_lock_file(const std::string& name) { return name.ends_with(".lock"); }
bool is_temporary(const std::string& name) {
  return name.starts_with("tmp_") || name.ends_with(".lock");
}

}  // namespace

fs::path default_slot_directory() {
  // NOLINTBEGIN(concurrency-mt-unsafe): nobody here sets variables.
  const char* const cache = std::getenv("XDG_CACHE_HOME");
  if (cache != nullptr && *cache == '/') return fs::path{cache} / "tenure" / "git";
  const char* const home = std::getenv("HOME");
  // NOLINTEND(concurrency-mt-unsafe)
  if (home != nullptr && *home == '/') return fs::path{home} / ".cache" / "tenure" / "git";
  throw GitError(Problem::failed,
                 "no place for a temporary worktree: set HOME or XDG_CACHE_HOME to a directory");
}

Slot::Slot(fs::path directory, const SlotPlan& plan, int number, process::Descriptor lock)
    : directory_(std::move(directory)),
      own_(!plan.local_repository.has_value()),
      lock_(std::move(lock)) {
  common_ = own_ ? directory_ / "home.git" : *plan.local_repository;
  admin_ = common_ / "worktrees" / ("tenure-" + plan.key + "-" + std::to_string(number));
}

Slot::~Slot() {
  if (lock_.get() < 0) return;
  std::error_code ignored;
  fs::remove(directory_ / "busy", ignored);
  // Not only closed: the guardian of the last command may close its copy a moment later.
  ::flock(lock_.get(), LOCK_UN);
}

Slot Slot::take(const SlotPlan& plan) {
  for (int number = 0; number < max_slots; ++number) {
    const fs::path directory = plan.directory / plan.key / std::to_string(number);
    make_directories(directory);
    std::optional<process::Descriptor> lock = try_lock_file(directory / "lock");
    if (!lock) continue;
    Slot slot{directory, plan, number, *std::move(lock)};
    slot.prepare(plan);
    return slot;
  }
  throw GitError(Problem::failed, "more than " + std::to_string(max_slots) + " processes use '" +
                                      (plan.directory / plan.key).string() +
                                      "' at once: use one space for all of them");
}

void Slot::prepare(const SlotPlan& plan) {
  const bool killed = fs::exists(directory_ / "busy");
  write_file(directory_ / "busy", "");
  const bool whole = fs::exists(directory_ / "ready") && fs::exists(admin_ / "HEAD") &&
                     fs::exists(admin_ / "commondir") && fs::is_directory(tree());
  if (!whole) {
    build(plan);
    return;
  }
  restore();
  if (killed && own_) remove_matching(common_, &is_temporary);
}

void Slot::restore() const {
  const std::string link = "gitdir: " + admin_.string() + "\n";
  if (read_file(tree() / ".git") != link) {
    remove_tree(tree() / ".git");
    write_file(tree() / ".git", link);
  }
  remove_stale_locks();
}

void Slot::build(const SlotPlan& plan) {
  discard();
  if (own_) {
    remove_tree(common_);
    git_repository_init_options options{};
    check(git_repository_init_options_init(&options, GIT_REPOSITORY_INIT_OPTIONS_VERSION),
          "cannot prepare a repository");
    options.flags = GIT_REPOSITORY_INIT_BARE | GIT_REPOSITORY_INIT_MKPATH;
    (void)make<Repo>("cannot create '" + common_.string() + "'", git_repository_init_ext,
                     common_.c_str(), &options);
    if (plan.objects) {
      make_directories(common_ / "objects" / "info");
      write_file(common_ / "objects" / "info" / "alternates", plan.objects->string() + "\n");
    }
  }
  make_directories(tree());
  make_directories(admin_);
  write_file(admin_ / "locked", "kept by tenure for its next transaction\n");
  write_file(admin_ / "commondir", "../..\n");
  write_file(admin_ / "gitdir", (tree() / ".git").string() + "\n");
  write_file(admin_ / "HEAD", unborn);
  write_file(tree() / ".git", "gitdir: " + admin_.string() + "\n");
  write_file(directory_ / "ready", "");
}

void Slot::discard() const {
  std::error_code ignored;
  fs::remove(directory_ / "ready", ignored);
  remove_tree(tree());
  remove_tree(admin_);
}

void Slot::remove_stale_locks() const {
  remove_matching(admin_, &is_lock_file);
  if (!own_) return;
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator{common_, ignored}) {
    const std::string name = entry.path().filename().string();
    std::error_code gone;
    if (is_lock_file(name)) fs::remove(entry.path(), gone);
  }
  remove_matching(common_ / "refs", &is_lock_file);
}

Repo Slot::open(const std::string& settings) const {
  auto repository = make<Repo>("cannot open the worktree '" + tree().string() + "'",
                               git_repository_open, tree().c_str());
  if (settings.empty()) return repository;
  const fs::path file = directory_ / "settings";
  if (read_file(file) != settings) write_file(file, settings);
  const auto config = make<Config>("cannot read the settings of git", git_config_new);
  check(git_config_add_file_ondisk(config.get(), file.c_str(), GIT_CONFIG_LEVEL_LOCAL,
                                   repository.get(), 1),
        "cannot read '" + file.string() + "'");
  check(git_repository_set_config(repository.get(), config.get()), "cannot use the settings");
  return repository;
}

std::optional<git_oid> Slot::seen(git_repository* repository) {
  git_oid id{};
  if (git_repository_head_detached(repository) != 1) return std::nullopt;
  if (git_reference_name_to_id(&id, repository, "HEAD") != 0) return std::nullopt;
  return id;
}

void Slot::set_seen(git_repository* repository, const git_oid& head) {
  check(git_repository_set_head_detached(repository, &head),
        "cannot note that " + text_of(head) + " is the head");
}

}  // namespace tenure::git
