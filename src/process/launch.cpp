#include "process/launch.hpp"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <span>
#include <utility>

namespace tenure::process {
namespace {

std::string_view name_of(std::string_view variable) {
  return variable.substr(0, variable.find('='));
}

// Ours, without those that `changes` name, and what `changes` set.
std::vector<const char*> merge_environment(std::span<const char* const> changes) {
  std::vector<const char*> out;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const auto names_it = [name = name_of(*variable)](const char* change) {
      return name_of(change) == name;
    };
    if (std::ranges::none_of(changes, names_it)) out.push_back(*variable);
  }
  for (const char* const change : changes) {
    if (std::string_view{change}.contains('=')) out.push_back(change);
  }
  out.push_back(nullptr);
  return out;
}

constexpr int output_flags = O_WRONLY | O_CREAT | O_APPEND;

// ---- In the child, which shares the parent's memory until exec.

bool redirect(const Launch::Standard& standard, int number) {
  if (standard.kind == Target::Kind::inherit) return true;
  int from = standard.descriptor;
  if (standard.kind == Target::Kind::file) {
    const int flags = number == STDIN_FILENO ? O_RDONLY : output_flags;
    from = ::open(standard.path, flags | O_CLOEXEC | O_NOCTTY, 0666);  // NOLINT: a vararg call.
  }
  if (from < 0) return false;
  if (from != number) return ::dup2(from, number) >= 0;
  return ::fcntl(number, F_SETFD, 0) == 0;  // NOLINT: a vararg call.
}

struct Failure {
  Step step = Step::process;
  int error = 0;
};

[[noreturn]] void fail(volatile Failure& failure, Step step) {
  failure.error = errno;
  failure.step = step;
  ::_exit(127);
}

[[noreturn]] void become_command(const Launch& launch, pid_t guardian, volatile Failure& failure) {
  switch (launch.group) {
    case Group::session: ::setsid(); break;
    case Group::own: ::setpgid(0, 0); break;
    case Group::owner: ::setpgid(0, launch.owner_group); break;
  }
  // The signal comes when the thread dies that called vfork; a guardian has no other.
  ::prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
  if (::getppid() != guardian) ::_exit(127);  // It died before the line above.
  if (*launch.directory != '\0' && ::chdir(launch.directory) != 0) fail(failure, Step::directory);
  constexpr std::array steps{Step::input, Step::output, Step::error};
  for (std::size_t i = 0; i < steps.size(); ++i) {
    if (!redirect(launch.standard[i], static_cast<int>(i))) fail(failure, steps[i]);
  }
  for (const int number : launch.descriptors) ::fcntl(number, F_SETFD, 0);  // NOLINT: vararg.
  ::pthread_sigmask(SIG_SETMASK, &launch.signal_mask, nullptr);
  ::execvp(launch.words.front(), const_cast<char**>(launch.words.data()));  // NOLINT: const.
  fail(failure, Step::program);
}

// Apart from start(): the child must not return from the function that called vfork.
[[gnu::noinline]] pid_t fork_command(const Launch& launch, pid_t guardian,
                                     volatile Failure& failure) {
  const pid_t pid = ::vfork();                              // NOLINT: see launch.hpp.
  if (pid == 0) become_command(launch, guardian, failure);  // NOLINT: likewise.
  return pid;
}

}  // namespace

void read_texts(const Order& order, std::string_view text, Launch& launch) {
  const auto next = [&text] {
    const char* const start = text.data();
    text.remove_prefix(std::min(text.find('\0') + 1, text.size()));
    return start;
  };
  launch.directory = next();
  for (Launch::Standard& standard : launch.standard) standard.path = next();
  for (std::uint32_t i = 0; i < order.words; ++i) launch.words.push_back(next());
  launch.words.push_back(nullptr);
  std::vector<const char*> changes;
  changes.reserve(order.variables);
  for (std::uint32_t i = 0; i < order.variables; ++i) changes.push_back(next());
  launch.variables = merge_environment(changes);
}

Launched start(const Launch& launch) {
  volatile Failure failure;
  // execvp() looks for the program in the PATH that the command gets.
  char** const own = std::exchange(environ, const_cast<char**>(launch.variables.data()));  // NOLINT
  const pid_t pid = fork_command(launch, ::getpid(), failure);
  const int error = errno;
  environ = own;
  if (pid < 0) return {.step = Step::process, .error = error};
  if (failure.error == 0) return {.pid = pid};
  ::waitpid(pid, nullptr, 0);
  return {.step = failure.step, .error = failure.error};
}

}  // namespace tenure::process
