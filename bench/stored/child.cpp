#include "bench/stored/child.hpp"

#include <linux/futex.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <stdexcept>
#include <utility>

#include "bench/program.hpp"

namespace tenure::bench::stored {
namespace {

constexpr std::size_t max_words = 4096;
// Of a child that is to answer: far beyond anything measured, short of a night.
constexpr timeval patience{.tv_sec = 120, .tv_usec = 0};

std::pair<Line, Line> ends_of_a_line() {
  std::array<int, 2> sockets{};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets.data()) != 0) {
    throw std::system_error(errno, std::generic_category(), "socketpair");
  }
  ::setsockopt(sockets[0], SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  return {Line{sockets[0]}, Line{sockets[1]}};
}

[[noreturn]] void be_a_child(pid_t parent, std::size_t core, const Child::Body& body, Line& line) {
  die_with(parent, SIGKILL);
  try {
    pin_to_core(core);
    body(line);
    ::_exit(EXIT_SUCCESS);
  } catch (const std::exception& error) {
    (void)std::fprintf(stderr, "a process of the benchmark failed: %s\n", error.what());
    ::kill(parent, SIGTERM);
    ::_exit(EXIT_FAILURE);
  }
}

}  // namespace

Line::Line(Line&& other) noexcept : socket_(std::exchange(other.socket_, -1)) {}

Line::~Line() {
  if (socket_ >= 0) ::close(socket_);
}

void Line::send(const Words& words) {
  // Not empty: an empty message reads like the end of the line.
  std::vector<double> message{static_cast<double>(words.size())};
  message.insert(message.end(), words.begin(), words.end());
  const std::size_t bytes = message.size() * sizeof(double);
  if (words.size() >= max_words ||
      ::send(socket_, message.data(), bytes, MSG_NOSIGNAL) != static_cast<ssize_t>(bytes)) {
    throw std::runtime_error("a process of the benchmark can't be reached");
  }
}

std::optional<Words> Line::next() {
  std::vector<double> message(max_words);
  ssize_t got = 0;
  do {
    got = ::recv(socket_, message.data(), message.size() * sizeof(double), 0);
  } while (got < 0 && errno == EINTR);
  if (got < static_cast<ssize_t>(sizeof(double))) return std::nullopt;
  message.resize(static_cast<std::size_t>(got) / sizeof(double));
  return Words(message.begin() + 1, message.end());
}

Child::Child(std::size_t core, const Body& body) : Child(core, body, ends_of_a_line()) {}

Child::Child(std::size_t core, const Body& body, std::pair<Line, Line> ends)
    : line_(std::move(ends.first)), pid_(-1) {
  (void)std::fflush(stdout);
  const pid_t parent = ::getpid();
  pid_ = ::fork();
  if (pid_ < 0) throw std::system_error(errno, std::generic_category(), "fork");
  if (pid_ == 0) be_a_child(parent, core, body, ends.second);
}

Child::Child(Child&& other) noexcept
    : line_(std::move(other.line_)), pid_(std::exchange(other.pid_, -1)) {}

Child::~Child() {
  if (pid_ < 0) return;
  kill();
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

Words Child::hear() {
  std::optional<Words> words = line_.next();
  if (!words.has_value()) throw std::runtime_error("a process of the benchmark did not answer");
  return *std::move(words);
}

void Child::kill() noexcept { ::kill(pid_, SIGKILL); }

void Signal::set(std::uint32_t value) noexcept {
  value_.store(value);
  ::syscall(SYS_futex, &value_, FUTEX_WAKE, INT32_MAX, nullptr, nullptr, 0);
}

template <class Reached>
void Signal::wait(Reached reached) const noexcept {
  for (std::uint32_t seen = value_.load(); !reached(seen); seen = value_.load()) {
    ::syscall(SYS_futex, &value_, FUTEX_WAIT, seen, nullptr, nullptr, 0);
  }
}

void Signal::wait_for(std::uint32_t value) const noexcept {
  wait([=](std::uint32_t seen) { return seen == value; });
}

void Signal::wait_at_least(std::uint32_t value) const noexcept {
  wait([=](std::uint32_t seen) { return seen >= value; });
}

}  // namespace tenure::bench::stored
