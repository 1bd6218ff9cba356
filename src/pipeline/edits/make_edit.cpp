#include <fcntl.h>

#include <cerrno>
#include <fstream>
#include <functional>
#include <system_error>
#include <vector>

#include "pipeline/edits/protocol.hpp"

namespace tenure::pipeline {
namespace {

std::string quoted_path(const FilePath& path) { return "'" + path.string() + "'"; }

// The git directory of the repository that the file is in; empty where there is none.
FilePath git_directory(const FilePath& file) {
  for (FilePath at = file.parent_path();; at = at.parent_path()) {
    FilePath git = at / ".git";
    std::error_code ignored;
    if (std::filesystem::is_directory(git, ignored)) return git;
    if (std::filesystem::is_regular_file(git, ignored)) {  // A worktree or a submodule.
      std::string line;
      std::getline(std::ifstream{git}, line);
      constexpr std::string_view key = "gitdir: ";
      const FilePath there = at / (line.starts_with(key) ? line.substr(key.size()) : "none");
      if (std::filesystem::is_directory(there, ignored)) return there;
    }
    if (at == at.parent_path()) return {};
  }
}

// Where the side file may be, the best place first.
std::vector<FilePath> side_places(const EditNames& names, const FilePath& file) {
  std::vector<FilePath> places{names.name("side")};
  const std::string id = new_id();
  if (const FilePath git = git_directory(file); !git.empty()) {
    places.push_back(git / ("tenure-" + id));
  }
  // npm never packs ._* and *.orig.
  places.push_back(file.parent_path() / ("._tenure-" + id + ".orig"));
  return places;
}

void write_synced(Disk& disk, const FilePath& path, std::string_view bytes, int like,
                  Disk::Times times = Disk::Times::same) {
  disk.create(path, bytes, like, times);
  disk.sync(path);
}

void write_journal(Disk& disk, const EditNames& names, const Record& record) {
  const FilePath draft = names.name("draft");
  if (is_there(draft)) disk.remove(draft);
  write_synced(disk, draft, text_of(record), -1);
  disk.rename(draft, names.name("journal"));
  disk.sync_directory(names.directory);
}

// Steps 3 to 5 with one side file. False: it can't be there.
bool exchange_with(Disk& disk, Edited& out, std::string_view bytes) {
  const Record& record = out.record;
  write_journal(disk, out.names, record);
  try {
    // The edited file is new to whoever looks at times: build tools must see the change.
    write_synced(disk, record.side, bytes, out.original.number(), Disk::Times::now);
    disk.sync_directory(record.side.parent_path());
    // Locked before it has the name of the file: from then on another run finds this inode.
    out.edited = open_locked(record.side);
    disk.exchange(record.side, record.file);
  } catch (const std::system_error& error) {
    const int code = error.code().value();
    const bool elsewhere = code == EXDEV || code == EROFS || code == EACCES || code == EPERM;
    if (is_there(record.side)) disk.remove(record.side);
    if (elsewhere) return false;
    throw;
  }
  disk.sync_directory(record.file.parent_path());
  disk.sync_directory(record.side.parent_path());
  return true;
}

Descriptor lock_original(const FilePath& file) {
  const std::string shown = quoted_path(file);
  Descriptor original = open_locked(file);
  if (!original.is_open()) {
    throw EditBusy(shown + " is being edited by another task or run: wait until it has ended");
  }
  struct stat status{};
  if (::fstat(original.number(), &status) != 0 || !S_ISREG(status.st_mode)) {
    throw EditError(shown + " is not a regular file: edit the file that it stands for");
  }
  if (identity_of(file) != identity_of(status)) {
    throw EditBusy(shown + " was replaced at this moment: try again");
  }
  return original;
}

// Steps 1 to 6; leaves it to the caller to take back what an exception left.
void run_steps(Disk& disk, Edited& out, const FilePath& file, const Change& change) {
  out.original = lock_original(file);
  const int original = out.original.number();
  disk.sync(file);
  const std::string before = read_all(original);
  const std::string after = change(before);
  struct stat status{};
  ::fstat(original, &status);
  out.record = {.file = file, .side = {}, .original = identity_of(status)};
  write_synced(disk, out.names.name("original"), before, original);
  write_synced(disk, out.names.name("edited"), after, -1);
  bool made = false;
  for (const FilePath& side : side_places(out.names, file)) {
    out.record.side = side;
    made = exchange_with(disk, out, after);
    if (made) break;
  }
  const std::string shown = quoted_path(file);
  if (!made) {
    throw EditError(shown +
                    " can't be exchanged with an edited copy: its directory is read-only, "
                    "or belongs to somebody else: make it writable");
  }
  const bool same_inode = identity_of(out.record.side) == out.record.original;
  if (same_inode && read_file(out.record.side) == before) return;
  // What was swapped out is somebody else's. It goes back, and is then not ours to restore.
  disk.exchange(out.record.side, file);
  disk.sync_directory(file.parent_path());
  disk.sync_directory(out.record.side.parent_path());
  disk.remove(out.record.side);
  disk.remove(out.names.name("journal"));
  throw EditBusy(shown + " was changed by somebody else at this moment: try again");
}

// After a refusal: as if nothing had been tried.
void take_back(Disk& disk, const Edited& out) {
  if (is_there(out.names.name("journal"))) {
    const EditReport report = restore_edit(disk, out.names, out.record, out.names.name("conflict"));
    std::ignore = report;  // What the system refuses now is left to the next start.
  } else {
    remove_leftovers(disk, out.names);
  }
}

}  // namespace

Edited make_edit(Disk& disk, const EditNames& names, const FilePath& file, const Change& change) {
  Edited out{.names = names, .record = {}, .original = Descriptor{}, .edited = Descriptor{}};
  try {
    run_steps(disk, out, file, change);
  } catch (const EditError&) {
    take_back(disk, out);
    throw;
  } catch (const std::system_error& error) {
    take_back(disk, out);
    std::string advice = "check the file, its directory and the free space";
    if (error.code().value() == EBUSY) advice = "it is a mount point: edit the file behind it";
    if (error.code().value() == EINVAL || error.code().value() == ENOSYS) {
      advice = "its file system can't exchange two files: keep the workspace on another one";
    }
    if (error.code().value() == EFBIG) advice = "a file to edit may have at most 64 MiB";
    throw EditError(quoted_path(file) + " can't be edited: " + error.what() + ": " + advice);
  }
  return out;
}

}  // namespace tenure::pipeline
