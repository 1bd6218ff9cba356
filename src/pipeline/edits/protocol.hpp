// protocol.hpp: how one file is changed and comes back, step by step.
//
// A session has a directory with a `lock`, which its process holds with flock, and for edit n:
//   n.original   a copy of the file, bytes and metadata      | both synced before the journal is
//   n.edited     what the file is changed to                 | there
//   n.journal    which file, which inode, which side file; written as n.draft, synced, renamed
//   n.side       the side file, where it can be here: the edited file, and after the exchange the
//                original inode
//
// Edit:    1 lock the inode, look again that the name still means it, sync it
//          2 write and sync n.original and n.edited
//          3 write, sync and rename the journal; sync the session's directory
//          4 write and sync the side file with the metadata of the original; sync its directory
//          5 exchange; sync both directories
//          6 look at what was swapped out: another inode, or other bytes than were read? Exchange
//            again and refuse
// Restore: from whatever of that a crash has left. `Record` says which inode is the original; the
//          device is not compared, because a boot may number devices anew.
//          a the name means the original: the exchange was not made, or was undone
//          b the side file is the original. The name means what we wrote, or the same bytes as the
//            original: exchange. It means nothing: put the original back. Else: a conflict
//          c neither is the original (`git clean` removed the side file): as in b, with a new file
//            made from n.original
//          then sync the directories, remove the side file, and only then the journal; sync; remove
//          the copies
//
// The side file must be on the file system of the file: in the session's directory, else in the git
// directory, else beside the file, under a name that npm never packs.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "pipeline/edits/disk.hpp"
#include "pipeline/edits/file_edits.hpp"

namespace tenure::pipeline {

// The journal of one edit.
struct Record {
  FilePath file;  // Without symlinks.
  FilePath side;
  Identity original;
};
[[nodiscard]] std::string text_of(const Record& record);
[[nodiscard]] std::optional<Record> parse_record(std::string_view text);

// The names of edit n in the directory of its session.
struct EditNames {
  FilePath directory;
  std::uint64_t number = 0;
  [[nodiscard]] FilePath name(std::string_view ending) const {
    return directory / (std::to_string(number) + "." + std::string{ending});
  }
};

// An edit that was made. The locks are released with it.
struct Edited {
  EditNames names;
  Record record;
  Descriptor original;
  Descriptor edited;
};

// Steps 1 to 6. `change` makes the new bytes from the old ones, or throws EditError. Throws
// EditError; then nothing has changed.
using Change = std::function<std::string(const std::string& bytes)>;
[[nodiscard]] Edited make_edit(Disk& disk, const EditNames& names, const FilePath& file,
                               const Change& change);

// Restores what the journal says. `kept` is where the original of a conflict goes. Does not throw
// for what the file system refuses: Outcome::failed.
[[nodiscard]] EditReport restore_edit(Disk& disk, const EditNames& names, const Record& record,
                                      const FilePath& kept);

// Removes what a crash left of an edit without a journal.
void remove_leftovers(Disk& disk, const EditNames& names);

}  // namespace tenure::pipeline
