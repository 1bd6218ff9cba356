// world_test.hpp: what the tests of this room share: a remote on this machine, an environment in
// which git knows nothing of the person who runs the tests, and a foreign writer that uses git.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

#include "tenure/git.hpp"
#include "tenure/tenure.hpp"
#include "tests/kit/message.hpp"
#include "tests/kit/process.hpp"
#include "tests/kit/scratch.hpp"

namespace tenure::git {

namespace fs = std::filesystem;

inline void write(const fs::path& path, const std::string& text) {
  fs::create_directories(path.parent_path());
  std::ofstream{path, std::ios::binary} << text;
}

inline void append(const fs::path& path, const std::string& text) {
  std::ofstream{path, std::ios::binary | std::ios::app} << text;
}

inline std::string read(const fs::path& path) {
  std::ifstream in{path, std::ios::binary};
  return {std::istreambuf_iterator<char>{in}, {}};
}

inline std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> out;
  std::istringstream in{text};
  for (std::string line; std::getline(in, line);) out.push_back(line);
  return out;
}

class World {
 public:
  World() : directory_("tenure-git-") {
    set("HOME", directory_ / "home");
    set("XDG_CACHE_HOME", directory_ / "cache");
    set("GIT_CONFIG_GLOBAL", directory_ / "gitconfig");
    set("GIT_CONFIG_NOSYSTEM", "1");
    for (const char* name : {"GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_SSH_COMMAND",
                             "GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME",
                             "GIT_COMMITTER_EMAIL", "EMAIL", "SSH_AUTH_SOCK", "GIT_ASKPASS"}) {
      ::unsetenv(name);  // NOLINT(concurrency-mt-unsafe): before there are threads.
    }
    write(directory_ / "gitconfig",
          "[user]\n\tname = Test\n\temail = test@example.org\n"
          "[init]\n\tdefaultBranch = main\n[advice]\n\tdetachedHead = false\n");
    fs::create_directories(directory_ / "home");
    run({"init", "-q", "--bare", remote()});
    run({"clone", "-q", remote(), foreign()});
    write(foreign() / "count", "0");
    write(foreign() / ".gitignore", "*.tmp\n");
    commit_foreign("start");
    run({"-C", foreign(), "push", "-q", "origin", "main"});
  }

  [[nodiscard]] fs::path path(const std::string& name) const { return directory_ / name; }
  [[nodiscard]] fs::path remote() const { return directory_ / "remote.git"; }
  [[nodiscard]] fs::path foreign() const { return directory_ / "foreign"; }
  [[nodiscard]] fs::path cache() const { return directory_ / "cache"; }
  [[nodiscard]] std::string space_url() const {
    return "sqlite:" + (directory_ / "space.db").string();
  }

  static std::string run(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "git");
    std::string out = kit::run(arguments);
    while (out.ends_with('\n')) out.pop_back();
    return out;
  }
  std::string at_remote(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), {"-C", remote().string()});
    return run(std::move(arguments));
  }
  [[nodiscard]] std::string head() const { return at_remote({"rev-parse", "main"}); }
  [[nodiscard]] std::string file(const std::string& name) const {
    return at_remote({"show", "main:" + name});
  }
  [[nodiscard]] std::size_t commits() const {
    return std::stoul(at_remote({"rev-list", "--count", "main"}));
  }

  void commit_foreign(const std::string& message) const {
    run({"-C", foreign(), "add", "-A"});
    run({"-C", foreign(), "commit", "-q", "-m", message});
  }
  // As a person does it, who does not know of locks.
  void push_foreign(const std::string& name, const std::string& text) const {
    run({"-C", foreign(), "pull", "-q", "--rebase"});
    write(foreign() / name, text);
    commit_foreign("foreign " + name);
    run({"-C", foreign(), "push", "-q", "origin", "HEAD:main"});
  }

  static void set(const char* name, const std::string& value) {
    ::setenv(name, value.c_str(), 1);  // NOLINT(concurrency-mt-unsafe): before there are threads.
  }

 private:
  kit::Scratch directory_;
};

// Adds one to the number in the file `count`.
inline void add_one(const Transaction& change) {
  const fs::path file = change.directory() / "count";
  write(file, std::to_string(std::stoi(read(file)) + 1));
}

// The problem that the call throws.
template <class Call>
Problem problem_of(const Call& call, std::string* message = nullptr) {
  try {
    call();
  } catch (const GitError& error) {
    if (message != nullptr) *message = error.what();
    return error.problem();
  }
  ADD_FAILURE() << "it did not throw a GitError";
  return Problem::failed;
}

}  // namespace tenure::git
