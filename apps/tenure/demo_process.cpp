#include "demo_process.hpp"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <string_view>
#include <system_error>
#include <utility>

#include "tenure/error.hpp"

namespace tenure::cli {

constexpr int answer_limit_ms = 10'000;  // A demonstration that hangs shows nothing.

DemoProcess::DemoProcess(std::vector<std::string> words, const std::string& directory) {
  process::Pipe output;
  posix_spawn_file_actions_t files{};
  ::posix_spawn_file_actions_init(&files);
  ::posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_adddup2(&files, output.write.get(), STDOUT_FILENO);
  words.insert(words.begin(), "tenure");
  std::vector<char*> arguments;
  arguments.reserve(words.size() + 1);
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  std::string state = "XDG_STATE_HOME=" + directory;
  std::vector<char*> variables{state.data()};
  for (char** one = environ; *one != nullptr; ++one) {
    if (!std::string_view{*one}.starts_with("XDG_STATE_HOME=")) variables.push_back(*one);
  }
  variables.push_back(nullptr);
  const int error =
      ::posix_spawn(&pid_, "/proc/self/exe", &files, nullptr, arguments.data(), variables.data());
  ::posix_spawn_file_actions_destroy(&files);
  if (error != 0) throw std::system_error(error, std::generic_category(), "posix_spawn");
  output_ = std::move(output.read);
}

std::optional<std::string> DemoProcess::next_line() {
  for (;;) {
    if (const std::size_t end = text_.find('\n'); end != std::string::npos) {
      std::string line = text_.substr(0, end);
      text_.erase(0, end + 1);
      return line;
    }
    pollfd wait = process::readable(output_.get());
    if (::poll(&wait, 1, answer_limit_ms) != 1) {
      throw Error("a process of the demo said nothing for 10 s");
    }
    std::array<char, 4096> bytes{};
    const ssize_t size = ::read(output_.get(), bytes.data(), bytes.size());
    if (size <= 0) return std::nullopt;
    text_.append(bytes.data(), static_cast<std::size_t>(size));
  }
}

void DemoProcess::kill() {
  if (pid_ <= 0) return;  // -1 would signal every process.
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
  pid_ = -1;
}

}  // namespace tenure::cli
