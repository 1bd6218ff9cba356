#include "git/program.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string_view>
#include <utility>

#include "base/boot_clock.hpp"
#include "base/duration.hpp"
#include "git/words.hpp"
#include "process/descriptor.hpp"
#include "tenure/detail/saturating.hpp"

namespace tenure::git {
namespace {

using process::Descriptor;
using process::Event;

// Between SIGTERM and SIGKILL: git removes its lock files.
constexpr base::BootTime grace = std::chrono::seconds{2};

// A file in memory with the input: a pipe would have to be fed while the output is read.
Descriptor input_file(const std::string& text) {
  Descriptor file{::memfd_create("tenure-git", MFD_CLOEXEC)};
  if (file.get() < 0) process::fail_system("memfd_create");
  std::string_view rest = text;
  while (!rest.empty()) {
    const ssize_t written = ::write(file.get(), rest.data(), rest.size());
    if (written < 0) process::fail_system("write");
    rest.remove_prefix(static_cast<std::size_t>(written));
  }
  if (::lseek(file.get(), 0, SEEK_SET) < 0) process::fail_system("lseek");
  return file;
}

struct OutputPipe {
  process::Pipe pipe;
  bool open = true;

  OutputPipe() {
    if (::fcntl(pipe.read.get(), F_SETFL, O_NONBLOCK) != 0) process::fail_system("fcntl");
  }
  [[nodiscard]] int waited() const noexcept { return open ? pipe.read.get() : -1; }
  void read_into(std::string& text) {
    std::array<char, 65536> buffer;
    for (;;) {
      const ssize_t size = ::read(pipe.read.get(), buffer.data(), buffer.size());
      if (size < 0 && errno == EINTR) continue;
      if (size == 0) open = false;
      if (size <= 0) return;
      const std::size_t room = GitProgram::max_output - text.size();
      text.append(buffer.data(), std::min(static_cast<std::size_t>(size), room));
    }
  }
};

std::string name_of(const GitCall& call) {
  for (const std::string& word : call.arguments) {
    if (!word.starts_with('-') && !word.contains('=')) return "git " + word;
  }
  return "git";
}

// The messages must be git's own, not translated ones; everything else of the locale stays.
void add_locale(std::vector<std::string>& environment) {
  const char* const all = std::getenv("LC_ALL");  // NOLINT(concurrency-mt-unsafe): nobody sets it.
  if (all != nullptr && *all != '\0') environment.push_back(std::string{"LC_CTYPE="} + all);
  environment.insert(environment.end(), {"LC_ALL", "LANGUAGE", "LC_MESSAGES=C"});
}

}  // namespace

std::vector<std::string> without_repository_variables() {
  return {"GIT_DIR",          "GIT_WORK_TREE",      "GIT_INDEX_FILE",
          "GIT_COMMON_DIR",   "GIT_PREFIX",         "GIT_OBJECT_DIRECTORY",
          "GIT_NAMESPACE",    "GIT_GRAFT_FILE",     "GIT_ALTERNATE_OBJECT_DIRECTORIES",
          "GIT_SHALLOW_FILE", "GIT_QUARANTINE_PATH"};
}

// One call, from its start to the end of its last process.
class GitProgram::Session {
 public:
  Session(process::Guardian& guardian, const std::stop_token& stop)
      : guardian_(guardian),
        stopped_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
        on_stop_(stop, [fd = stopped_.get()] {
          const std::uint64_t one = 1;
          [[maybe_unused]] const ssize_t written = ::write(fd, &one, sizeof one);
        }) {
    if (stopped_.get() < 0) process::fail_system("eventfd");
  }

  void start(process::Command command) {
    command.output = process::Target::of(output_.pipe.write.get());
    command.error = process::Target::of(errors_.pipe.write.get());
    guardian_.launch(command);
    output_.pipe.write.reset();
    errors_.pipe.write.reset();
  }

  // False when there is nothing more to wait for.
  bool step() {
    std::array waits{process::readable(guardian_.descriptor()), process::readable(output_.waited()),
                     process::readable(errors_.waited()),
                     process::readable(was_stopped ? -1 : stopped_.get())};
    ::poll(waits.data(), waits.size(), -1);
    if (waits[1].revents != 0) output_.read_into(answer.output);
    if (waits[2].revents != 0) errors_.read_into(answer.errors);
    if (waits[3].revents != 0) {
      was_stopped = true;
      guardian_.end(base::boot_time() + grace);
    }
    if (waits[0].revents == 0) return true;
    const std::optional<Event> event = guardian_.next();
    return !event || on_event(*event);
  }

  void read_rest() {
    output_.read_into(answer.output);
    errors_.read_into(answer.errors);
  }

  GitAnswer answer;
  std::optional<int> failed;  // errno
  bool was_stopped = false;
  bool overdue = false;
  bool guardian_died = false;

 private:
  bool on_event(const Event& event) {
    switch (event.kind) {
      case Event::Kind::started:
      case Event::Kind::stopped:
      case Event::Kind::continued: return true;
      case Event::Kind::failed: failed = event.value; return false;
      case Event::Kind::overdue: overdue = true; return true;
      case Event::Kind::exited:
        answer.status =
            WIFSIGNALED(event.value) ? 128 + WTERMSIG(event.value) : WEXITSTATUS(event.value);
        // Such as a cache of credentials, or the master of an ssh connection.
        if (event.left && !was_stopped) guardian_.end(base::boot_time() + grace);
        return event.left;
      case Event::Kind::gone: return false;
      case Event::Kind::guardian_dead: guardian_died = true; return false;
    }
    return true;
  }

  process::Guardian& guardian_;
  OutputPipe output_;
  OutputPipe errors_;
  Descriptor stopped_;
  std::stop_callback<std::function<void()>> on_stop_;  // Last: it uses `stopped_`.
};

GitAnswer GitProgram::run(const GitCall& call, const std::stop_token& stop) {
  process::Command command{.words = {"git"}};
  command.words.insert(command.words.end(), call.arguments.begin(), call.arguments.end());
  command.environment = without_repository_variables();
  add_locale(command.environment);
  // A person who would be asked is not there; neither is an editor.
  command.environment.insert(command.environment.end(), {"GIT_TERMINAL_PROMPT=0", "GIT_EDITOR=:"});
  command.environment.insert(command.environment.end(), call.environment.begin(),
                             call.environment.end());
  command.directory = call.directory;
  command.descriptors = descriptors_;
  command.kill_at = detail::saturating_add(base::boot_time(), timeout_);
  Descriptor input;
  command.input = process::Target::null();
  if (!call.input.empty()) {
    input = input_file(call.input);
    command.input = process::Target::of(input.get());
  }
  Session session{guardian_, stop};
  session.start(std::move(command));
  while (session.step()) {
  }
  session.read_rest();
  const std::string name = name_of(call);
  if (session.failed) {
    const bool missing = *session.failed == ENOENT;
    throw GitError(Problem::failed,
                   "cannot start '" + name +
                       "': " + std::generic_category().message(*session.failed) +
                       (missing ? ": install git, and check PATH and the current directory" : ""));
  }
  if (session.guardian_died) {
    throw GitError(Problem::failed,
                   "the guardian process that runs git was killed: open the repository again");
  }
  if (session.was_stopped) throw GitError(Problem::stopped, "'" + name + "' was stopped");
  if (session.overdue) {
    throw GitError(Problem::failed, "'" + name + "' was killed after " + base::age_text(timeout_) +
                                        ": check the connection, or raise Options::git_timeout");
  }
  return std::move(session.answer);
}

std::string GitProgram::expect(const GitCall& call, const std::stop_token& stop) {
  GitAnswer answer = run(call, stop);
  if (answer.ok()) return std::move(answer.output);
  throw GitError(problem_in(answer.errors),
                 "'" + name_of(call) + "' failed: " + essence(answer.errors));
}

}  // namespace tenure::git
