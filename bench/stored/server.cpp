#include "bench/stored/server.hpp"

#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <sstream>
#include <stdexcept>
#include <system_error>
#include <thread>

#include "bench/program.hpp"
#include "bench/stored/supervise.hpp"
#include "store/scratch.hpp"

namespace tenure::bench::stored {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr auto start_limit = 30s;
constexpr auto stop_limit = 5s;

std::system_error failed(const char* what) { return {errno, std::generic_category(), what}; }

struct User {
  uid_t uid;
  gid_t gid;
};

// Nothing: stay who we are.
std::optional<User> user_of(const Command& command) {
  if (!command.as_ordinary_user || ::geteuid() != 0) return std::nullopt;
  for (const char* const name : {"postgres", "nobody"}) {
    // NOLINTNEXTLINE(concurrency-mt-unsafe)
    if (const passwd* const entry = ::getpwnam(name); entry != nullptr) {
      return User{.uid = entry->pw_uid, .gid = entry->pw_gid};
    }
  }
  throw std::runtime_error("there is no user to run " + command.words.front() + " as");
}

bool become(const User& user) {
  return ::setgroups(0, nullptr) == 0 && ::setgid(user.gid) == 0 && ::setuid(user.uid) == 0;
}

// Only calls that are safe after a fork.
[[noreturn]] void be_the_program(char* const* words, const std::optional<User>& user, int log,
                                 pid_t parent, int stop_signal) {
  ::dup2(log, STDOUT_FILENO);
  ::dup2(log, STDERR_FILENO);
  if (::chdir("/") != 0 || (user.has_value() && !become(*user))) ::_exit(EXIT_FAILURE);
  die_with(parent, stop_signal);  // A change of user would undo this, so it comes last.
  ::execv(words[0], words);
  ::_exit(127);
}

pid_t start(const Command& command, const fs::path& log_path, int stop_signal) {
  std::vector<char*> words;
  for (const std::string& word : command.words) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  const std::optional<User> user = user_of(command);
  const int log = ::open(log_path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (log < 0) throw failed("open");
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child == 0) be_the_program(words.data(), user, log, parent, stop_signal);
  ::close(log);
  if (child < 0) throw failed("fork");
  return child;
}

std::string end_of(const fs::path& log) {
  std::ifstream file{log};
  const std::string text{std::istreambuf_iterator<char>{file}, {}};
  constexpr std::size_t most = 1000;
  return text.substr(text.size() - std::min(most, text.size()));
}

std::runtime_error broken(const Command& command, const std::string& how, const fs::path& log) {
  return std::runtime_error(command.words.front() + " " + how + ":\n" + end_of(log));
}

bool has_ended(pid_t child) { return ::waitpid(child, nullptr, WNOHANG) != 0; }

void stop(pid_t child, int signal) noexcept {
  ::kill(child, signal);
  for (const auto until = Clock::now() + stop_limit; Clock::now() < until;) {
    if (has_ended(child)) return;
    std::this_thread::sleep_for(2ms);
  }
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
}

}  // namespace

std::optional<fs::path> find_program(std::string_view name, const std::vector<fs::path>& places) {
  const auto can_run = [](const fs::path& path) { return ::access(path.c_str(), X_OK) == 0; };
  for (const fs::path& place : places) {
    if (can_run(place / name)) return place / name;
  }
  const char* const path = std::getenv("PATH");  // NOLINT(concurrency-mt-unsafe)
  std::istringstream words{path == nullptr ? "" : path};
  for (std::string place; std::getline(words, place, ':');) {
    if (can_run(fs::path{place} / name)) return fs::path{place} / name;
  }
  return std::nullopt;
}

fs::path directory_for(const Command& command, std::string_view name) {
  const fs::path path = scratch_path(name);
  fs::create_directory(path);
  fs::permissions(path, fs::perms::owner_all);
  if (const std::optional<User> user = user_of(command); user.has_value()) {
    if (::chown(path.c_str(), user->uid, user->gid) != 0) throw failed("chown");
  }
  return path;
}

void run(const Command& command) {
  const fs::path log = scratch_path("run.log");
  const pid_t child = start(command, log, SIGKILL);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) throw failed("waitpid");
  }
  if (status != 0) throw broken(command, "failed", log);
}

int free_port() { return stores::free_port(); }

Server::Server(const Command& command, int stop_signal, const std::function<bool()>& ready)
    : stop_signal_(stop_signal),
      log_(scratch_path("server.log")),
      pid_(start(command, log_, stop_signal)) {
  for (const auto until = Clock::now() + start_limit; !ready();) {
    if (has_ended(pid_)) throw broken(command, "ended", log_);
    if (Clock::now() > until) {
      stop(pid_, stop_signal_);
      throw broken(command, "does not get ready", log_);
    }
    std::this_thread::sleep_for(5ms);
  }
}

Server::~Server() { stop(pid_, stop_signal_); }

}  // namespace tenure::bench::stored
