#include "git/git_process.hpp"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <utility>

#include "base/boot_clock.hpp"

namespace tenure::git {
namespace {

using process::Event;

void set_nonblocking(int descriptor) {
  if (::fcntl(descriptor, F_SETFL, O_NONBLOCK) != 0) process::fail_system("fcntl");
}

// write() to a pipe without a reader sends SIGPIPE to this thread: not to a program that uses us.
ssize_t write_without_signal(int descriptor, std::string_view text) {
  sigset_t pipe{};
  ::sigemptyset(&pipe);
  ::sigaddset(&pipe, SIGPIPE);
  sigset_t before{};
  ::pthread_sigmask(SIG_BLOCK, &pipe, &before);
  const ssize_t written = ::write(descriptor, text.data(), text.size());
  const int error = errno;
  if (written < 0 && error == EPIPE && ::sigismember(&before, SIGPIPE) == 0) {
    const timespec now{};
    while (::sigtimedwait(&pipe, nullptr, &now) < 0 && errno == EINTR) {
    }
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  errno = error;
  return written;
}

}  // namespace

GitProcess::OutputPipe::OutputPipe() { set_nonblocking(pipe.read.get()); }

void GitProcess::OutputPipe::read_into(std::string& text) {
  std::array<char, 65536> buffer;
  for (;;) {
    const ssize_t size = ::read(pipe.read.get(), buffer.data(), buffer.size());
    if (size < 0 && errno == EINTR) continue;
    if (size == 0) open = false;
    if (size <= 0) return;
    const std::size_t room = max_output - text.size();
    text.append(buffer.data(), std::min(static_cast<std::size_t>(size), room));
  }
}

GitProcess::GitProcess(process::Guardian& guardian, const std::stop_token& stop)
    : guardian_(guardian),
      stopped_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      on_stop_(stop, [fd = stopped_.get()] {
        const std::uint64_t one = 1;
        [[maybe_unused]] const ssize_t written = ::write(fd, &one, sizeof one);
      }) {
  if (stopped_.get() < 0) process::fail_system("eventfd");
}

GitProcess::~GitProcess() {
  if (over_) return;
  guardian_.end(base::boot_time() + git_grace);
  while (!over_) step(nullptr);
}

void GitProcess::start(process::Command command, bool talk) {
  talks_ = talk;
  command.output = process::Target::of(output_.pipe.write.get());
  command.error = process::Target::of(errors_.pipe.write.get());
  if (talk) {
    command.input = process::Target::of(input_.read.get());
    set_nonblocking(input_.write.get());
  }
  guardian_.launch(command);
  over_ = false;
  output_.pipe.write.reset();
  errors_.pipe.write.reset();
  input_.read.reset();
}

bool GitProcess::write(std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write_without_signal(input_.write.get(), text);
    if (written > 0) text.remove_prefix(static_cast<std::size_t>(written));
    if (written >= 0 || errno == EINTR) continue;
    if (errno != EAGAIN || over_) return false;
    pollfd writable{.fd = input_.write.get(), .events = POLLOUT, .revents = 0};
    step(&writable);
  }
  return true;
}

std::size_t GitProcess::read(char* buffer, std::size_t size) {
  for (;;) {
    const ssize_t got = ::read(output_.pipe.read.get(), buffer, size);
    if (got >= 0) return static_cast<std::size_t>(got);
    if (errno == EINTR) continue;
    if (errno != EAGAIN || over_) return 0;
    pollfd readable = process::readable(output_.pipe.read.get());
    step(&readable);
  }
}

void GitProcess::wait() {
  input_.write.reset();
  while (!over_) step(nullptr);
  output_.read_into(result_.output);
  errors_.read_into(result_.errors);
}

void GitProcess::step(pollfd* more) {
  std::array waits{process::readable(guardian_.descriptor()),
                   process::readable(talks_ ? -1 : output_.waited()),
                   process::readable(errors_.waited()),
                   process::readable(result_.was_stopped ? -1 : stopped_.get()),
                   more != nullptr ? *more : process::readable(-1)};
  ::poll(waits.data(), waits.size(), -1);
  if (waits[1].revents != 0) output_.read_into(result_.output);
  if (waits[2].revents != 0) errors_.read_into(result_.errors);
  if (waits[3].revents != 0) {
    result_.was_stopped = true;
    guardian_.end(base::boot_time() + git_grace);
  }
  if (waits[0].revents == 0) return;
  if (const std::optional<Event> event = guardian_.next()) on_event(*event);
}

void GitProcess::on_event(const Event& event) {
  switch (event.kind) {
    case Event::Kind::started:
    case Event::Kind::stopped:
    case Event::Kind::continued: return;
    case Event::Kind::overdue: result_.overdue = true; return;
    case Event::Kind::failed: result_.failed = event.value; break;
    case Event::Kind::exited:
      result_.status =
          WIFSIGNALED(event.value) ? 128 + WTERMSIG(event.value) : WEXITSTATUS(event.value);
      // Such as a cache of credentials, or the master of an ssh connection.
      if (event.left && !result_.was_stopped) guardian_.end(base::boot_time() + git_grace);
      if (event.left) return;
      break;
    case Event::Kind::gone: break;
    case Event::Kind::guardian_dead: result_.guardian_died = true; break;
  }
  over_ = true;
}

}  // namespace tenure::git
