// Edits that are cut off: the process ends, or the power is lost, after each operation of an edit
// and of its recovery.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <string>

#include "pipeline/edits/faulty_disk_test.hpp"
#include "pipeline/edits/file_edits.hpp"
#include "tests/kit/scratch.hpp"

namespace tenure::pipeline {
namespace {

constexpr int crashed = 7;
constexpr int limit = 200;  // Operations: far more than there are.
const std::string original = R"({"version": "1.0.0"})";

// A workspace in which a child process edits a file.
struct Scene {
  kit::Scratch directory{"tenure-test-"};  // In memory: the disks of this test know what is synced.
  FilePath file = FilePath{directory / "work"} / "package.json";
  FilePath state = directory / "state";
  FilePath graveyard = directory / "graveyard";
  Identity identity;
  bool apart = false;  // The state is on another file system: the side file is beside the file.

  Scene() {
    std::filesystem::create_directories(file.parent_path());
    std::filesystem::create_directories(state);
    std::filesystem::create_directories(graveyard);
    std::ofstream{file} << original;
    identity = identity_of(file).value();
  }

  [[nodiscard]] std::vector<FilePath> roots() const { return {file.parent_path(), state}; }

  void edit(Disk& disk) const {
    EditSession session{state, disk};
    Edit edit{.file = "package.json", .format = Edit::Format::json};
    edit.set = {{.key = {"version"}, .value = R"("9.9.9")"}};
    FileEdits edits{session, {edit}, file.parent_path()};
    if (read_file(file) != R"({"version": "9.9.9"})") ::_exit(3);
    for (const EditReport& report : edits.restore()) {
      if (report.outcome != EditReport::Outcome::restored) ::_exit(4);
    }
  }

  // As the next start finds it.
  void expect_untouched() const {
    EXPECT_EQ(read_file(file), original);
    EXPECT_EQ(identity_of(file), identity) << "another inode";
    for (const auto& entry : std::filesystem::recursive_directory_iterator{state}) {
      const std::string name = entry.path().filename().string();
      EXPECT_TRUE(name == "lock" || name == "kept") << "left behind: " << entry.path();
    }
    for (const auto& entry : std::filesystem::directory_iterator{file.parent_path()}) {
      EXPECT_EQ(entry.path(), file) << "left behind";
    }
  }
};

// Runs it in a child; its exit status, 0 at the end of the work.
int in_child(const std::function<void()>& work) {
  std::fflush(stdout);
  const pid_t child = ::fork();
  if (child == 0) {
    try {
      work();
    } catch (const std::exception& error) {
      std::fprintf(stderr, "%s\n", error.what());
      ::_exit(5);
    }
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

// A first crash after operation `first` of the edit; with `second`, another one after that many
// operations of the recovery. Returns how the last child ended.
using MakeDisk = std::function<std::unique_ptr<Disk>(const Scene& scene, int stop_after)>;
int crash(const Scene& scene, const MakeDisk& disk, int first, std::optional<int> second) {
  // Made here, not in the child: each has a seed of its own.
  const std::unique_ptr<Disk> of_edit = disk(scene, first);
  int status = in_child([&] { scene.edit(*of_edit); });
  if (status == crashed && second) {
    const std::unique_ptr<Disk> of_recovery = disk(scene, *second);
    status = in_child([&] { (void)restore_edits(scene.state, *of_recovery); });
  }
  return status;
}

// Every operation of the edit, and for each of those every operation of the recovery.
int crash_everywhere(const MakeDisk& disk, int step) {
  int cases = 0;
  for (int first = 1; first < limit; ++first) {
    for (int second = 0; second < limit; second += step) {
      Scene scene;
      scene.apart = cases % 2 == 1;
      const int status =
          crash(scene, disk, first, second == 0 ? std::optional<int>{} : std::optional{second});
      EXPECT_TRUE(status == crashed || status == 0) << "status " << status;
      for (const EditReport& report : restore_edits(scene.state)) {
        EXPECT_EQ(report.outcome, EditReport::Outcome::restored) << report.message;
      }
      scene.expect_untouched();
      ++cases;
      if (::testing::Test::HasFailure()) {
        ADD_FAILURE() << "stopped after " << first << " and " << second;
        return cases;
      }
      if (status == 0) {
        if (second == 0) return cases;  // The edit was not cut off any more.
        break;                          // The recovery was not.
      }
    }
  }
  ADD_FAILURE() << "the edit takes more operations than this test knows";
  return cases;
}

// Problem 5: a process that is killed leaves no file edited.
TEST(EditCrash, Problem5_EndOfTheProcessAfterAnyOperation) {
  const int cases = crash_everywhere(
      [](const Scene&, int stop_after) {
        return std::make_unique<CountingDisk>(stop_after, [] { ::_exit(crashed); });
      },
      1);
  std::printf("%d cases\n", cases);
  EXPECT_GT(cases, 100);
}

TEST(EditCrash, PowerLossAfterAnyOperation) {
  const char* const given = std::getenv("TENURE_SEED");
  unsigned seed =
      given == nullptr ? std::random_device{}() : static_cast<unsigned>(std::stoul(given));
  const char* const torture = std::getenv("TENURE_TORTURE");
  const int rounds = torture == nullptr ? 1 : 20;
  std::printf("TENURE_SEED=%u\n", seed);
  int cases = 0;
  for (int round = 0; round < rounds && !HasFailure(); ++round) {
    cases += crash_everywhere(
        [&seed](const Scene& scene, int stop_after) {
          return std::make_unique<PowerLossDisk>(scene.graveyard, scene.roots(), stop_after, ++seed,
                                                 scene.apart ? scene.state : FilePath{});
        },
        torture == nullptr ? 3 : 1);
  }
  std::printf("%d cases\n", cases);
}

}  // namespace
}  // namespace tenure::pipeline
