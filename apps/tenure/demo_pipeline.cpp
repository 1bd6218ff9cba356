#include "demo_pipeline.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "process/descriptor.hpp"
#include "scratch.hpp"
#include "tenure/error.hpp"

namespace tenure::cli {
namespace {

constexpr int answer_limit_ms = 10'000;  // A demonstration that hangs shows nothing.

// Two chains that meet. Each task takes long enough to be killed in the middle of.
constexpr std::string_view demo_manifest = R"(jobs = 2
[defaults]
timeout = "10s"
[task.build-api]
run = "sleep 0.05"
[task.build-web]
run = "sleep 0.1"
[task.test-api]
needs = ["build-api"]
run = "sleep 0.1"
[task.test-web]
needs = ["build-web"]
run = "sleep 0.1"
[task.release]
needs = ["test-api", "test-web"]
run = "sleep 0.02"
)";

// `tenure pipeline ACTION` in another process, with its output in a pipe.
class PipelineProcess {
 public:
  PipelineProcess(std::string action, const std::string& directory) {
    process::Pipe output;
    posix_spawn_file_actions_t files{};
    ::posix_spawn_file_actions_init(&files);
    ::posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    ::posix_spawn_file_actions_adddup2(&files, output.write.get(), STDOUT_FILENO);
    std::array<std::string, 4> words{"tenure", "pipeline", std::move(action),
                                     directory + "/pipeline.toml"};
    std::array<char*, 5> arguments{words[0].data(), words[1].data(), words[2].data(),
                                   words[3].data(), nullptr};
    // The state of this run is not one of the user's.
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
  PipelineProcess(const PipelineProcess&) = delete;
  PipelineProcess& operator=(const PipelineProcess&) = delete;
  ~PipelineProcess() { kill(); }

  // Nothing at the end.
  [[nodiscard]] std::optional<std::string> next_line() {
    for (;;) {
      if (const std::size_t end = text_.find('\n'); end != std::string::npos) {
        std::string line = text_.substr(0, end);
        text_.erase(0, end + 1);
        return line;
      }
      pollfd wait = process::readable(output_.get());
      if (::poll(&wait, 1, answer_limit_ms) != 1) {
        throw Error("the pipeline of the demo said nothing for 10 s");
      }
      std::array<char, 4096> bytes{};
      const ssize_t size = ::read(output_.get(), bytes.data(), bytes.size());
      if (size <= 0) return std::nullopt;
      text_.append(bytes.data(), static_cast<std::size_t>(size));
    }
  }

  void kill() {
    if (pid_ <= 0) return;  // -1 would signal every process.
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }

 private:
  pid_t pid_ = -1;
  process::Descriptor output_;
  std::string text_;
};

void print_line(const std::string& line) {
  fmt::print("  {}\n", line);
  (void)std::fflush(stdout);
}

}  // namespace

void show_pipeline(const Terminal& terminal) {
  fmt::print("\n{}\n{}\n",
             terminal.paint(Style::bold, "8. A pipeline is killed half-way, and resumed"),
             wrap("Five tasks run as commands, two at a time, each after the tasks that it needs. "
                  "After the second one is done, the run is killed. Its commands die with it; "
                  "'tenure pipeline resume' goes on and repeats nothing that was done.",
                  78, "  "));
  const Scratch scratch;
  std::ofstream{scratch.path() + "/pipeline.toml"} << demo_manifest;
  constexpr int enough = 2;
  int done = 0;
  {
    PipelineProcess run{"run", scratch.path()};
    while (const std::optional<std::string> line = run.next_line()) {
      print_line(*line);
      if (line->starts_with("done ") && ++done == enough) run.kill();
    }
  }
  print_line(terminal.paint(Style::red, "the run was killed by SIGKILL"));
  PipelineProcess resumed{"resume", scratch.path()};
  while (const std::optional<std::string> line = resumed.next_line()) print_line(*line);
}

}  // namespace tenure::cli
