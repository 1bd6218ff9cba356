#include "tests/kit/process.hpp"

#include <fcntl.h>
#include <grp.h>
#include <linux/futex.h>
#include <pwd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <fstream>
#include <iterator>
#include <sstream>
#include <thread>
#include <utility>

#include "tenure/error.hpp"
#include "tests/kit/patience.hpp"

namespace tenure::kit {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

// Exit statuses of a child that could not begin.
constexpr int parent_gone = 98;
constexpr int threw = 99;
constexpr int not_prepared = 126;
constexpr int not_found = 127;

std::system_error failed(const char* what) { return {errno, std::generic_category(), what}; }

// The kernel kills the caller with the process that forked it.
void die_with(pid_t parent, int signal) {
  ::prctl(PR_SET_PDEATHSIG, signal);
  if (::getppid() != parent) ::_exit(parent_gone);
}

[[noreturn]] void run_body(const Process::Body& body, pid_t parent, int socket) {
  die_with(parent, SIGKILL);
  int status = 0;
  try {
    body(Line{socket});
  } catch (const std::exception& error) {
    std::fprintf(stderr, "process %d: %s\n", ::getpid(), error.what());
    status = threw;
  }
  ::_exit(status);
}

// All that a program needs, made before the fork: a child of a process with threads may not
// allocate memory.
struct Exec {
  std::string path;
  std::vector<char*> words{};
  std::vector<char*> environment{};
  std::optional<User> user{};
  int output = -1;
};

Exec prepare(const Program& program) {
  Exec exec{.path = program.words.at(0)};
  if (exec.path.find('/') == std::string::npos) {
    const auto found = find_program(exec.path, {"/usr/sbin"});
    if (!found) throw Error("the program '" + exec.path + "' is not installed: see `make help`");
    exec.path = found->string();
  }
  const auto add = [](std::vector<char*>& to, const std::string& text) {
    to.push_back(const_cast<char*>(text.c_str()));
  };
  for (const std::string& word : program.words) add(exec.words, word);
  exec.words.push_back(nullptr);
  for (const std::string& variable : program.environment) add(exec.environment, variable);
  for (char** at = environ; *at != nullptr; ++at) exec.environment.push_back(*at);
  exec.environment.push_back(nullptr);
  if (program.as_ordinary_user) exec.user = ordinary_user();
  if (program.output == Program::Output::log) {
    exec.output = ::open(program.log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (exec.output < 0) throw failed(program.log.c_str());
  }
  return exec;
}

bool become(const User& user) {
  return ::setgroups(0, nullptr) == 0 && ::setgid(user.gid) == 0 && ::setuid(user.uid) == 0;
}

// Only system calls: the parent may have threads.
[[noreturn]] void run_program(const Program& program, const Exec& exec, pid_t parent) {
  if (program.enter) program.enter();
  if (exec.output >= 0) {
    ::dup2(exec.output, STDOUT_FILENO);
    ::dup2(exec.output, STDERR_FILENO);
  }
  if (exec.user && (::chdir("/") != 0 || !become(*exec.user))) ::_exit(not_prepared);
  die_with(parent, program.death_signal);  // Last: a change of user undoes it.
  ::execve(exec.path.c_str(), exec.words.data(), exec.environment.data());
  ::_exit(not_found);
}

// The signals stay blocked in the child, which inherits the mask of the caller.
class Blocked {
 public:
  explicit Blocked(const std::vector<int>& signals) {
    sigset_t set;
    ::sigemptyset(&set);
    for (const int signal : signals) ::sigaddset(&set, signal);
    ::pthread_sigmask(SIG_BLOCK, &set, &before_);
  }
  Blocked(const Blocked&) = delete;
  Blocked& operator=(const Blocked&) = delete;
  ~Blocked() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_{};
};

int wait_for(pid_t pid) {
  const Awaiting note{"the end of a child process"};
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return status;
}

}  // namespace

// --- Line

Line::Line(Line&& other) noexcept : socket_(std::exchange(other.socket_, -1)) {}

Line& Line::operator=(Line&& other) noexcept {
  std::swap(socket_, other.socket_);
  return *this;
}

Line::~Line() {
  if (socket_ >= 0) ::close(socket_);
}

void Line::say(std::string_view text) const {
  while (::send(socket_, text.data(), text.size(), MSG_NOSIGNAL) < 0) {
    if (errno != EINTR) throw failed("send");
  }
}

std::optional<std::string> Line::hear() const {
  const Awaiting note{"a message from another process"};
  const auto receive = [this](void* buffer, std::size_t size, int flags) {
    for (;;) {
      const ssize_t got = ::recv(socket_, buffer, size, flags);
      if (got >= 0) return static_cast<std::size_t>(got);
      if (errno == ECONNRESET) return std::size_t{0};  // It was killed with a message unread.
      if (errno != EINTR) throw failed("recv");
    }
  };
  std::string text(receive(nullptr, 0, MSG_PEEK | MSG_TRUNC), '\0');
  if (text.empty()) return std::nullopt;
  receive(text.data(), text.size(), 0);
  return text;
}

void Line::limit(std::chrono::seconds time) const {
  const timeval limit{.tv_sec = time.count(), .tv_usec = 0};
  ::setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
}

void Line::send(const Numbers& numbers) const {
  // With their count in front: an empty message reads like the end of the line.
  std::string bytes((numbers.size() + 1) * sizeof(double), '\0');
  const auto count = static_cast<double>(numbers.size());
  std::memcpy(bytes.data(), &count, sizeof count);
  if (!numbers.empty()) {
    std::memcpy(bytes.data() + sizeof count, numbers.data(), numbers.size() * sizeof(double));
  }
  say(bytes);
}

std::optional<Numbers> Line::next() const {
  const std::optional<std::string> bytes = hear();
  if (!bytes) return std::nullopt;
  Numbers numbers((bytes->size() / sizeof(double)) - 1);
  if (!numbers.empty()) {
    std::memcpy(numbers.data(), bytes->data() + sizeof(double), numbers.size() * sizeof(double));
  }
  return numbers;
}

// --- Process

Process::Process(const Body& body) : line_(-1), owner_(::getpid()) {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    throw failed("socketpair");
  }
  line_ = Line{ends[0]};
  const Line theirs{ends[1]};
  std::fflush(nullptr);
  pid_ = ::fork();
  if (pid_ < 0) throw failed("fork");
  if (pid_ != 0) return;
  ::close(ends[0]);
  run_body(body, owner_, ends[1]);
}

Process::Process(const Program& program) : line_(-1), owner_(::getpid()) {
  Exec exec = prepare(program);
  if (program.output == Program::Output::pipe) {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) throw failed("pipe2");
    line_ = Line{ends[0]};
    exec.output = ends[1];
  }
  const Line output{exec.output};  // Closes our copy.
  const Blocked blocked{program.block};
  pid_ = ::fork();
  if (pid_ < 0) throw failed("fork");
  if (pid_ == 0) run_program(program, exec, owner_);
}

Process::Process(Process&& other) noexcept
    : line_(std::move(other.line_)), pid_(std::exchange(other.pid_, 0)), owner_(other.owner_) {}

Process::~Process() {
  if (::getpid() == owner_) kill();
}

std::string Process::hear() const {
  if (auto text = line_.hear()) return *std::move(text);
  throw Error("process " + std::to_string(pid_) + " ended before it answered");
}

std::string Process::read_line() const {
  std::string line;
  for (char c = 0; ::read(line_.socket(), &c, 1) == 1 && c != '\n';) line += c;
  return line;
}

std::string Process::read_all() const {
  std::string text;
  std::array<char, 512> buffer{};
  for (ssize_t n = 0; (n = ::read(line_.socket(), buffer.data(), buffer.size())) > 0;) {
    text.append(buffer.data(), static_cast<std::size_t>(n));
  }
  return text;
}

void Process::signal(int number) const noexcept {
  if (pid_ != 0) ::kill(pid_, number);
}

void Process::kill(int number) noexcept {
  if (pid_ == 0) return;
  ::kill(pid_, number);
  wait_for(std::exchange(pid_, 0));
}

void Process::kill_within(std::chrono::milliseconds limit, int number) noexcept {
  signal(number);
  for (const auto until = Clock::now() + limit; runs() && Clock::now() < until;) {
    std::this_thread::sleep_for(2ms);
  }
  kill();
}

void Process::stop() const {
  signal(SIGSTOP);
  int status = 0;
  if (::waitpid(pid_, &status, WUNTRACED) != pid_ || !WIFSTOPPED(status)) {
    throw Error("process " + std::to_string(pid_) + " ended instead of stopping");
  }
}

bool Process::runs() const noexcept {
  siginfo_t info{};
  return pid_ != 0 &&
         ::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
         info.si_pid != pid_;
}

int Process::exit_status() {
  const int status = wait_for(std::exchange(pid_, 0));
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

// --- Children

void Children::start(std::size_t count, const std::function<int(std::size_t)>& work) {
  for (std::size_t i = 0; i < count; ++i) {
    processes_.emplace_back([&work, i](const Line& /*line*/) {
      if (const int status = work(i); status != 0) ::_exit(status);
    });
  }
}

std::vector<int> Children::exit_statuses() {
  std::vector<int> statuses;
  for (Process& process : processes_) {
    if (process.pid() != 0) statuses.push_back(process.exit_status());
  }
  return statuses;
}

// --- Programs

std::string run(const std::vector<std::string>& words) {
  Process process{Program{.words = words, .output = Program::Output::pipe}};
  std::string text = process.read_all();
  if (const int status = process.exit_status(); status != 0) {
    throw Error("'" + words.front() + "' failed with status " + std::to_string(status) + ": " +
                text);
  }
  return text;
}

void run(Program program) {
  program.output = Program::Output::log;
  const int status = Process{program}.exit_status();
  if (status == 0) return;
  throw Error("'" + program.words.front() + "' failed with status " + std::to_string(status) +
              ":\n" + end_of(program.log));
}

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

std::optional<User> ordinary_user() {
  if (::geteuid() != 0) return std::nullopt;
  for (const char* const name : {"postgres", "nobody"}) {
    // NOLINTNEXTLINE(concurrency-mt-unsafe)
    if (const passwd* const entry = ::getpwnam(name); entry != nullptr) {
      return User{.uid = entry->pw_uid, .gid = entry->pw_gid};
    }
  }
  throw Error("root can't start this server, and there is no user 'postgres' or 'nobody'");
}

std::string end_of(const fs::path& log) {
  std::ifstream file{log};
  const std::string text{std::istreambuf_iterator<char>{file}, {}};
  constexpr std::size_t most = 1000;
  return text.substr(text.size() - std::min(most, text.size()));
}

// --- Signal

void Signal::set(std::uint32_t value) noexcept {
  value_.store(value);
  ::syscall(SYS_futex, &value_, FUTEX_WAKE, INT32_MAX, nullptr, nullptr, 0);
}

template <class Reached>
void Signal::wait(Reached reached) const noexcept {
  const Awaiting note{"a signal from another process"};
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

}  // namespace tenure::kit
