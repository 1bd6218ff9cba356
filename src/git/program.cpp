#include "git/program.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/boot_clock.hpp"
#include "base/duration.hpp"
#include "git/words.hpp"
#include "process/descriptor.hpp"
#include "tenure/detail/saturating.hpp"

namespace tenure::git {
namespace {

using process::Descriptor;

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

process::Command GitProgram::command_of(const GitCall& call) const {
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
  return command;
}

void GitProgram::check(const GitProcess::Result& result, const std::string& name) const {
  if (result.failed) {
    const bool missing = *result.failed == ENOENT;
    throw GitError(Problem::failed,
                   "cannot start '" + name +
                       "': " + std::generic_category().message(*result.failed) +
                       (missing ? ": install git, and check PATH and the current directory" : ""));
  }
  if (result.guardian_died) {
    throw GitError(Problem::failed,
                   "the guardian process that runs git was killed: open the repository again");
  }
  if (result.was_stopped) throw GitError(Problem::stopped, "'" + name + "' was stopped");
  if (result.overdue) {
    throw GitError(Problem::failed, "'" + name + "' was killed after " + base::age_text(timeout_) +
                                        ": check the connection, or raise Options::git_timeout");
  }
}

GitAnswer GitProgram::run(const GitCall& call, const std::stop_token& stop) {
  process::Command command = command_of(call);
  Descriptor input;
  command.input = process::Target::null();
  if (!call.input.empty()) {
    input = input_file(call.input);
    command.input = process::Target::of(input.get());
  }
  GitProcess process{guardian_, stop};
  process.start(std::move(command), false);
  process.wait();
  GitProcess::Result& result = process.result();
  check(result, name_of(call));
  return {.status = result.status,
          .output = std::move(result.output),
          .errors = std::move(result.errors)};
}

GitAnswer GitProgram::talk(const GitCall& call, const std::stop_token& stop,
                           const std::function<void(GitProcess&)>& conversation) {
  GitProcess process{guardian_, stop};
  process.start(command_of(call), true);
  conversation(process);
  process.wait();
  GitProcess::Result& result = process.result();
  check(result, name_of(call));
  return {.status = result.status, .output = {}, .errors = std::move(result.errors)};
}

std::string GitProgram::expect(const GitCall& call, const std::stop_token& stop) {
  GitAnswer answer = run(call, stop);
  if (answer.ok()) return std::move(answer.output);
  throw GitError(problem_in(answer.errors),
                 "'" + name_of(call) + "' failed: " + essence(answer.errors));
}

}  // namespace tenure::git
