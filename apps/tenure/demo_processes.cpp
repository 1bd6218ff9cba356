#include "demo_processes.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "base/duration.hpp"
#include "exit_status.hpp"
#include "process/descriptor.hpp"
#include "scratch.hpp"
#include "tenure/error.hpp"
#include "tenure/space.hpp"

namespace tenure::cli {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;  // CLOCK_MONOTONIC: the same in all processes.

constexpr std::size_t count = 4;
constexpr auto answer_limit = 10s;  // A demonstration that hangs shows nothing.

std::int64_t now_stamp() {
  return std::chrono::nanoseconds{Clock::now().time_since_epoch()}.count();
}

class Contender {
 public:
  Contender(const std::string& url, const Path& path) {
    process::Pipe input;
    process::Pipe output;
    posix_spawn_file_actions_t files{};
    ::posix_spawn_file_actions_init(&files);
    ::posix_spawn_file_actions_adddup2(&files, input.read.get(), STDIN_FILENO);
    ::posix_spawn_file_actions_adddup2(&files, output.write.get(), STDOUT_FILENO);
    std::array<std::string, 4> words{"tenure", "demo-contender", url, path.text()};
    std::array<char*, 5> arguments{words[0].data(), words[1].data(), words[2].data(),
                                   words[3].data(), nullptr};
    const int error =
        ::posix_spawn(&pid_, "/proc/self/exe", &files, nullptr, arguments.data(), environ);
    ::posix_spawn_file_actions_destroy(&files);
    if (error != 0) throw std::system_error(error, std::generic_category(), "posix_spawn");
    input_ = std::move(input.write);
    output_ = std::move(output.read);
  }
  Contender(const Contender&) = delete;
  Contender& operator=(const Contender&) = delete;
  ~Contender() { kill(); }

  [[nodiscard]] pid_t pid() const noexcept { return pid_; }

  // When it was granted the lock.
  [[nodiscard]] std::int64_t wait_for_lock() const {
    pollfd wait = process::readable(output_.get());
    std::array<char, 32> text{};
    std::int64_t stamp = 0;
    const auto limit = std::chrono::duration_cast<std::chrono::milliseconds>(answer_limit);
    if (::poll(&wait, 1, static_cast<int>(limit.count())) != 1) {
      throw Error("a process of the demo did not get its lock within 10 s");
    }
    const ssize_t size = ::read(output_.get(), text.data(), text.size());
    if (size <= 0 || std::from_chars(text.data(), text.data() + size, stamp).ec != std::errc{}) {
      throw Error("a process of the demo ended without getting its lock");
    }
    return stamp;
  }

  void kill() {
    if (pid_ <= 0) return;  // -1 would signal every process.
    ::kill(pid_, SIGKILL);
    leave();
  }
  void leave() {
    input_.reset();
    if (pid_ > 0) ::waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }
  // Does not wait for its end. Returns the time.
  [[nodiscard]] std::int64_t strike() const {
    const std::int64_t stamp = now_stamp();
    if (pid_ > 0) ::kill(pid_, SIGKILL);
    return stamp;
  }

 private:
  pid_t pid_ = -1;
  process::Descriptor input_;
  process::Descriptor output_;
};

void wait_until_in_line(const Space& space, const Path& path, std::size_t tickets) {
  const Clock::time_point end = Clock::now() + answer_limit;
  while (space.inspect(path).size() < tickets) {
    if (Clock::now() > end) throw Error("a process of the demo did not join the queue within 10 s");
    std::this_thread::sleep_for(1ms);
  }
}

}  // namespace

void show_processes(const Terminal& terminal) {
  fmt::print(
      "\n{}\n{}\n",
      terminal.paint(Style::bold, "7. Four processes, one file; the holder is killed"),
      wrap("Four processes ask for deploy/prod in one SQLite file. Then the holder dies, without a "
           "chance to release anything. The kernel notices, so the next process gets the lock "
           "within milliseconds: no timeout, and no lock is left behind.",
           78, "  "));
  const Scratch scratch;
  const std::string url = "sqlite:" + scratch.path() + "/demo.db";
  const Path path = Path::of("deploy", "prod");
  const Space space = open(url);
  std::vector<std::unique_ptr<Contender>> line;
  for (std::size_t i = 0; i < count; ++i) {
    line.push_back(std::make_unique<Contender>(url, path));
    wait_until_in_line(space, path, i + 1);
    fmt::print("  process {:<8} {}\n", line.back()->pid(),
               i == 0 ? terminal.paint(Style::green, "┃ deploy/prod")
                      : terminal.paint(Style::yellow, "┊ deploy/prod"));
  }
  (void)std::fflush(stdout);
  static_cast<void>(line.front()->wait_for_lock());
  for (std::size_t i = 0; i + 1 < count; ++i) {
    const std::int64_t struck = line[i]->strike();
    const std::int64_t had = line[i + 1]->wait_for_lock();
    fmt::print("  process {:<8} {}; process {} got the lock {} later\n", line[i]->pid(),
               terminal.paint(Style::red, "killed by SIGKILL"), line[i + 1]->pid(),
               base::precise_text(std::chrono::nanoseconds{had - struck}));
    (void)std::fflush(stdout);
    line[i]->leave();
  }
  line.back()->leave();
}

int contend(const ContenderOptions& options) {
  const Space space = open(options.space);
  const Hold hold = space.lock(options.path);
  const std::string text = std::to_string(now_stamp()) + "\n";
  if (::write(STDOUT_FILENO, text.data(), text.size()) < 0) return exit_failure;
  char byte = 0;
  while (::read(STDIN_FILENO, &byte, 1) > 0) {
  }
  return exit_ok;
}

}  // namespace tenure::cli
