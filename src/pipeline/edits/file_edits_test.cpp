#include "pipeline/edits/file_edits.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "pipeline/edits/disk.hpp"
#include "tests/kit/message.hpp"
#include "tests/kit/process.hpp"
#include "tests/kit/scratch.hpp"

namespace tenure::pipeline {
namespace {

using Outcome = EditReport::Outcome;
const std::string original = R"({"version": "1.0.0"})";
const std::string changed = R"({"version": "9.9.9"})";

class FileEditsTest : public ::testing::Test {
 protected:
  FileEditsTest() {
    std::filesystem::create_directories(work);
    write(file, original);
  }
  static void write(const FilePath& path, std::string_view bytes) {
    std::ofstream{path, std::ios::binary | std::ios::trunc} << bytes;
  }
  static Edit set_version(const std::string& name = "package.json") {
    Edit edit{.file = name, .format = Edit::Format::json};
    edit.set = {{.key = {"version"}, .value = R"("9.9.9")"}};
    return edit;
  }
  static struct stat status_of(const FilePath& path) {
    struct stat status{};
    EXPECT_EQ(::stat(path.c_str(), &status), 0) << path;
    return status;
  }

  kit::TemporaryDirectory directory;
  FilePath work = directory / "work";
  FilePath file = work / "package.json";
  FilePath state = directory / "state";
};

TEST_F(FileEditsTest, ComesBackAsItWas) {
  ASSERT_EQ(::chmod(file.c_str(), 0640), 0);
  const bool has_xattrs = ::setxattr(file.c_str(), "user.tenure", "x", 1, 0) == 0;
  std::filesystem::create_hard_link(file, work / "twin");
  std::filesystem::create_symlink("package.json", work / "link.json");
  const struct stat before = status_of(file);
  EditSession session{state};
  {
    FileEdits edits{session, {set_version("link.json")}, work};
    EXPECT_EQ(read_file(file), changed);
    const struct stat now = status_of(file);
    EXPECT_EQ(now.st_mode, before.st_mode);
    EXPECT_NE(now.st_ino, before.st_ino);
    EXPECT_EQ(read_file(work / "twin"), original);
    char value = 0;
    if (has_xattrs) {
      EXPECT_EQ(::getxattr(file.c_str(), "user.tenure", &value, 1), 1);
    }
    const auto reports = edits.restore();
    ASSERT_EQ(reports.size(), 1U);
    EXPECT_EQ(reports[0].outcome, Outcome::restored) << reports[0].message;
    EXPECT_EQ(reports[0].file, std::filesystem::canonical(file));
    EXPECT_TRUE(edits.restore().empty());
  }
  const struct stat after = status_of(file);
  EXPECT_EQ(read_file(file), original);
  EXPECT_EQ(after.st_ino, before.st_ino);
  EXPECT_EQ(after.st_mode, before.st_mode);
  EXPECT_EQ(after.st_nlink, 2U);
  EXPECT_EQ(after.st_mtim.tv_nsec, before.st_mtim.tv_nsec);
  EXPECT_TRUE(std::filesystem::is_symlink(work / "link.json"));
}

TEST_F(FileEditsTest, TheDestructorRestoresAndSoDoesAMove) {
  EditSession session{state};
  write(work / "b.json", original);
  {
    FileEdits edits{session, {set_version()}, work};
    EXPECT_EQ(read_file(file), changed);
    edits = FileEdits{session, {set_version("b.json")}, work};
    EXPECT_EQ(read_file(file), original) << "moved onto: it gives back what it had";
    EXPECT_EQ(read_file(work / "b.json"), changed);
  }
  EXPECT_EQ(read_file(work / "b.json"), original);
}

TEST_F(FileEditsTest, AllOrNothing) {
  EditSession session{state};
  Edit second = set_version("b.txt");
  second.format = Edit::Format::text;
  second.set.clear();
  second.replace = {{.from = "not there", .to = ""}};
  write(work / "b.txt", "text");
  const std::string said =
      kit::message_of<EditError>([&] { FileEdits edits(session, {set_version(), second}, work); });
  EXPECT_TRUE(kit::contains(said, "b.txt' can't be edited: the text 'not there' does not occur"));
  EXPECT_EQ(read_file(file), original);
  EXPECT_TRUE(kit::contains(
      kit::message_of<EditError>([&] { FileEdits edits(session, {set_version("no.json")}, work); }),
      "no.json' can't be edited: No such file"));
  EXPECT_TRUE(kit::contains(
      kit::message_of<EditError>([&] { FileEdits edits(session, {set_version(".")}, work); }),
      "is not a regular file"));
}

TEST_F(FileEditsTest, SeveralEditsOfOneFileAreOne) {
  EditSession session{state};
  Edit second = set_version("./package.json");
  second.set = {{.key = {"name"}, .value = R"("x")"}};
  FileEdits edits{session, {set_version(), second}, work};
  EXPECT_EQ(read_file(file), R"({"version": "9.9.9", "name": "x"})");
  EXPECT_EQ(edits.restore().size(), 1U);
  EXPECT_EQ(read_file(file), original);
}

TEST_F(FileEditsTest, AVersionOfSomebodyElseIsKept) {
  EditSession session{state};
  FileEdits edits{session, {set_version()}, work};
  write(file, "somebody else's");
  const auto reports = edits.restore();
  ASSERT_EQ(reports.size(), 1U);
  EXPECT_EQ(reports[0].outcome, Outcome::conflict);
  EXPECT_EQ(read_file(file), "somebody else's");
  EXPECT_EQ(read_file(reports[0].kept), original);
  EXPECT_TRUE(kit::contains(reports[0].message, "was changed by somebody else"));
  EXPECT_TRUE(kit::contains(reports[0].message, reports[0].kept.string()));
}

TEST_F(FileEditsTest, ARemovedFileIsPutBackAndEqualBytesAreTheOriginal) {
  EditSession session{state};
  const auto inode = identity_of(file);
  {
    FileEdits edits{session, {set_version()}, work};
    std::filesystem::remove(file);
    EXPECT_EQ(edits.restore().at(0).outcome, Outcome::restored);
  }
  EXPECT_EQ(identity_of(file), inode);
  FileEdits edits{session, {set_version()}, work};
  std::filesystem::remove(file);  // As `git checkout` does.
  write(file, original);
  EXPECT_EQ(edits.restore().at(0).outcome, Outcome::restored);
  EXPECT_EQ(identity_of(file), inode);
  EXPECT_EQ(read_file(file), original);
}

TEST_F(FileEditsTest, ALostOriginalComesBackFromItsCopy) {
  ASSERT_EQ(::chmod(file.c_str(), 0604), 0);
  const struct stat before = status_of(file);
  EditSession session{state};
  FileEdits edits{session, {set_version()}, work};
  for (const auto& entry : std::filesystem::recursive_directory_iterator{state}) {
    if (entry.path().extension() == ".side") std::filesystem::remove(entry.path());
  }
  const auto reports = edits.restore();
  EXPECT_EQ(reports.at(0).outcome, Outcome::copied) << reports.at(0).message;
  EXPECT_EQ(read_file(file), original);
  const struct stat after = status_of(file);
  EXPECT_EQ(after.st_mode, before.st_mode);
  EXPECT_EQ(after.st_mtim.tv_nsec, before.st_mtim.tv_nsec);
}

TEST_F(FileEditsTest, TwoRunsCannotEditOneFile) {
  kit::Process other{[this](const kit::Line& line) {
    (void)line.hear();
    EditSession session{directory / "other state"};
    try {
      FileEdits edits{session, {set_version()}, work};
      line.say("edited");
    } catch (const EditBusy& busy) {
      line.say(busy.what());
    }
  }};
  EditSession session{state};
  FileEdits edits{session, {set_version()}, work};
  EXPECT_THROW(FileEdits(session, {set_version()}, work), EditBusy);
  EXPECT_TRUE(kit::contains(other.ask("try"), "is being edited by another task or run"));
  EXPECT_EQ(read_file(file), changed);
  edits.restore();
  EXPECT_EQ(read_file(file), original);
}

// S27: after SIGKILL the next edit overwrote the backup, and the original was lost.
TEST_F(FileEditsTest, S27_TheFirstBackupWinsUntilItIsRestored) {
  const auto inode = identity_of(file);
  for (int round = 0; round < 3; ++round) {
    kit::Process killed{[this](const kit::Line& line) {
      EditSession session{state};
      FileEdits edits{session, {set_version()}, work};
      line.say(read_file(file).value());
      (void)line.hear();
    }};
    EXPECT_EQ(killed.hear(), changed) << "made from the original each time";
    killed.kill(SIGKILL);
    EXPECT_EQ(read_file(file), changed);
  }
  EditSession session{state};
  ASSERT_EQ(session.recovered().size(), 1U);
  EXPECT_EQ(session.recovered()[0].outcome, Outcome::restored);
  EXPECT_EQ(read_file(file), original);
  EXPECT_EQ(identity_of(file), inode);
}

TEST_F(FileEditsTest, AProcessThatDiedMeanwhileIsClearedUpAfter) {
  EditSession session{state};
  kit::Process killed{[this](const kit::Line& line) {
    EditSession own{state};
    FileEdits edits{own, {set_version()}, work};
    line.say("edited");
    (void)line.hear();
  }};
  EXPECT_EQ(killed.hear(), "edited");
  EXPECT_THROW(FileEdits(session, {set_version()}, work), EditBusy) << "it lives";
  EXPECT_TRUE(restore_edits(state).empty()) << "it lives";
  killed.kill(SIGKILL);
  FileEdits edits{session, {set_version()}, work};
  edits.restore();
  EXPECT_EQ(read_file(file), original);
}

TEST_F(FileEditsTest, ASideFileElsewhereIsInTheGitDirectory) {
  const FilePath memory = "/dev/shm";
  if (!std::filesystem::is_directory(memory) ||
      status_of(memory).st_dev == status_of(work).st_dev) {
    GTEST_SKIP() << "one file system only";
  }
  const kit::Scratch elsewhere{"tenure-test-", memory};
  EditSession session{elsewhere / "state"};
  const auto files = [&] { return std::distance(std::filesystem::directory_iterator{work}, {}); };
  {
    FileEdits edits{session, {set_version()}, work};
    EXPECT_EQ(read_file(file), changed);
    EXPECT_EQ(files(), 2) << "beside the file, for want of a better place";
  }
  EXPECT_EQ(files(), 1);
  std::filesystem::create_directories(work / ".git");
  {
    FileEdits edits{session, {set_version()}, work};
    EXPECT_EQ(read_file(file), changed);
    EXPECT_EQ(files(), 2) << "the file and .git";
  }
  EXPECT_EQ(read_file(file), original);
  EXPECT_TRUE(std::filesystem::is_empty(work / ".git"));
}

}  // namespace
}  // namespace tenure::pipeline
