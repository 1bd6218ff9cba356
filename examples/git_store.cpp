// A git repository as a small database: a bare repository is the server, two processes add to one
// file in it, and a person with plain git changes it in between. No change is lost.
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <string>

#include "tenure/git.hpp"
#include "tenure/tenure.hpp"

namespace fs = std::filesystem;

namespace {

// What a person types.
void shell(const std::string& commands) {
  // NOLINTNEXTLINE(concurrency-mt-unsafe,bugprone-command-processor)
  if (std::system(("set -e; " + commands).c_str()) != 0) throw tenure::Error("failed: " + commands);
}

int read_number(const fs::path& file) {
  int number = 0;
  std::ifstream{file} >> number;
  return number;
}

// A transform: it sees the files of the newest commit, and changes them. It may run several times.
void deposit(const fs::path& directory, int amount) {
  const int balance = read_number(directory / "balance");
  std::ofstream{directory / "balance"} << balance + amount << '\n';
}

void depositor(const fs::path& top, int amount) {
  const tenure::Space space = tenure::open("sqlite:" + (top / "locks.db").string());
  tenure::git::Repository bank{top / "bank.git", "main", {}, space};
  for (int i = 0; i < 5; ++i) {
    bank.transaction([&](tenure::git::Transaction& change) {
      deposit(change.directory(), amount);
      change.set_message("Deposit " + std::to_string(amount));
    });
  }
}

}  // namespace

int main() {
  const fs::path top = fs::temp_directory_path() / ("tenure-bank-" + std::to_string(::getpid()));
  fs::create_directories(top);
  // An identity and a place for worktrees that are nobody else's.
  for (const auto& [name, value] : {std::pair{"HOME", top.string()},
                                    {"XDG_CACHE_HOME", (top / "cache").string()},
                                    {"GIT_CONFIG_GLOBAL", "/dev/null"},
                                    {"GIT_CONFIG_NOSYSTEM", "1"},
                                    {"GIT_AUTHOR_NAME", "Ann"},
                                    {"GIT_AUTHOR_EMAIL", "ann@example.org"},
                                    {"GIT_COMMITTER_NAME", "Ann"},
                                    {"GIT_COMMITTER_EMAIL", "ann@example.org"}}) {
    ::setenv(name, value.c_str(), 1);  // NOLINT(concurrency-mt-unsafe): before there are threads.
  }
  shell("cd '" + top.string() +
        "'; git init -q -b main --bare bank.git; "
        "git clone -q bank.git ann 2>/dev/null; cd ann; git checkout -q -b main; "
        "echo 100 >balance; git add balance; git commit -q -m Open; git push -q origin main");

  for (const int amount : {1, 10}) {
    if (::fork() == 0) {
      depositor(top, amount);
      ::_exit(0);
    }
  }
  while (::wait(nullptr) > 0) {
  }
  shell("cd '" + (top / "ann").string() +
        "'; git pull -q; echo hello >note; git add note; "
        "git commit -q -m Note; git push -q origin main");

  // A working copy follows the branch; checkpoint() commits what was changed in it.
  const tenure::Space space = tenure::open("sqlite:" + (top / "locks.db").string());
  tenure::git::Repository bank{top / "bank.git", "main", top / "copy", space};
  std::cout << "no change, no commit: "
            << bank.transaction([](tenure::git::Transaction&) {}).commit.empty() << '\n';
  std::cout << "balance: " << read_number(top / "copy/balance") << '\n';
  std::ofstream{top / "copy/note", std::ios::app} << "world\n";
  bank.checkpoint("Add to the note");
  std::cout << "working copy: " << fs::file_size(top / "copy/note") << " bytes in the note\n"
            << std::flush;
  shell("git -C '" + (top / "bank.git").string() + "' log --format=%s main | sort | uniq -c");
  fs::remove_all(top);
}
