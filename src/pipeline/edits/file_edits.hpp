// file_edits.hpp: changes of files that last as long as a task, and survive no crash.
//
//   EditSession session{state / "edits"};           // Restores what a dead run left behind.
//   FileEdits edits{session, task.edits, task_dir};  // All of them, or none.
//   ... run the task ...
//   for (const EditReport& report : edits.restore()) ...
//
//   untouched ──journal, side file──► prepared ──exchange──► edited ──restore()──► untouched
//                                         │                     │
//                 SIGKILL, power loss ────┴─────────────────────┴──► the next EditSession, or
//                                                                     restore_edits(): untouched
//
// The file and a side file change places (renameat2, RENAME_EXCHANGE): the original inode waits
// under the name of the side file and comes back as it was, with mode, owner, ACL, mtime and hard
// links. protocol.hpp has the steps and what each of them needs on disk.
//
// Invariants:
//   1. Before a file changes, its bytes, its metadata and the journal are on disk.
//   2. The journal goes after the file is back, on disk. The first copy of an original is never
//      overwritten.
//   3. A version that somebody else wrote is never overwritten: it stays, the original is kept in
//      the state directory, and the report names both.
//   4. Two edits of one inode exclude each other (flock), in one process or in two.
//
// Thread safety: one session may be used by several threads; one FileEdits by one.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "pipeline/manifest.hpp"
#include "tenure/error.hpp"

namespace tenure::pipeline {

// The edit was refused; nothing has changed. The message says which file, why, and what to do.
class EditError : public Error {
 public:
  using Error::Error;
};
// Another task or another run edits the file.
class EditBusy : public EditError {
 public:
  using EditError::EditError;
};

// NOLINTBEGIN(readability-redundant-member-init): designated initializers may leave them out.

struct EditReport {
  enum class Outcome : std::uint8_t {
    restored,
    copied,    // The original inode was gone: its bytes and metadata are back in a new one.
    conflict,  // Somebody else changed the file: it was left alone, and the original kept.
    failed,    // The system refused it. The journal stays: the next start tries again.
  };
  std::filesystem::path file;
  Outcome outcome = Outcome::restored;
  std::filesystem::path kept{};  // Of a conflict: where the original is.
  std::string message{};         // For people; empty for `restored`.
};

// NOLINTEND(readability-redundant-member-init)

class Disk;  // disk.hpp

// What one process edits. Its directory is removed with the object when nothing is left in it.
class EditSession {
 public:
  // Makes the directory, and restores what dead sessions left in it. Throws EditError.
  explicit EditSession(const std::filesystem::path& directory);
  EditSession(const std::filesystem::path& directory, Disk& disk);  // For tests.
  EditSession(const EditSession&) = delete;
  EditSession& operator=(const EditSession&) = delete;
  ~EditSession();

  // What the constructor restored.
  [[nodiscard]] const std::vector<EditReport>& recovered() const noexcept { return recovered_; }

 private:
  friend class FileEdits;
  class Impl;
  std::unique_ptr<Impl> impl_;
  std::vector<EditReport> recovered_;
};

class FileEdits {
 public:
  // `directory` is what relative names are relative to; symlinks are followed. Several edits of one
  // file are made in their order. Throws EditError; the files are then as they were.
  FileEdits(EditSession& session, const std::vector<Edit>& edits,
            const std::filesystem::path& directory);
  FileEdits(FileEdits&& other) noexcept;
  FileEdits& operator=(FileEdits&& other) noexcept;  // Restores what it had.
  FileEdits(const FileEdits&) = delete;
  FileEdits& operator=(const FileEdits&) = delete;
  ~FileEdits();  // restore(), without a report.

  // One report per file. The second call returns nothing.
  std::vector<EditReport> restore();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

// `tenure pipeline restore`: what dead sessions left in that directory. Those of live processes are
// not touched.
std::vector<EditReport> restore_edits(const std::filesystem::path& directory);
std::vector<EditReport> restore_edits(const std::filesystem::path& directory, Disk& disk);

}  // namespace tenure::pipeline
