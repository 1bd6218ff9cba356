#include "tests/museum/process.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdio>
#include <exception>
#include <memory>
#include <mutex>
#include <sstream>
#include <stop_token>
#include <thread>
#include <utility>

#include "tenure/tenure.hpp"

namespace tenure::museum {
namespace {

constexpr std::size_t longest_message = 4096;

std::array<int, 2> line_ends() {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    throw std::system_error(errno, std::generic_category(), "socketpair");
  }
  return ends;
}

}  // namespace

void Line::say(std::string_view text) const {
  while (::send(socket_, text.data(), text.size(), MSG_NOSIGNAL) < 0) {
    if (errno != EINTR) throw std::system_error(errno, std::generic_category(), "send");
  }
}

std::optional<std::string> Line::hear() const {
  std::string text(longest_message, '\0');
  ssize_t size = 0;
  while ((size = ::recv(socket_, text.data(), text.size(), 0)) < 0) {
    if (errno != EINTR) throw std::system_error(errno, std::generic_category(), "recv");
  }
  if (size == 0) return {};
  text.resize(static_cast<std::size_t>(size));
  return text;
}

void Line::close() noexcept { ::close(std::exchange(socket_, -1)); }

Process::Process(const Body& body) : line_(-1) {
  const std::array<int, 2> ends = line_ends();
  const pid_t parent = ::getpid();
  std::fflush(nullptr);
  pid_ = ::fork();
  if (pid_ < 0) throw std::system_error(errno, std::generic_category(), "fork");
  if (pid_ == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(98);
    ::close(ends[0]);
    int status = 0;
    try {
      body(Line{ends[1]});
    } catch (const std::exception& error) {
      std::fprintf(stderr, "process %d: %s\n", ::getpid(), error.what());
      status = 99;
    }
    ::_exit(status);
  }
  ::close(ends[1]);
  line_ = Line{ends[0]};
}

Process::~Process() {
  kill();
  line_.close();
}

std::string Process::hear() const {
  if (auto text = line_.hear()) return *std::move(text);
  throw Error("a process of the test has ended before it answered");
}

void Process::signal(int number) const noexcept {
  if (pid_ != 0) ::kill(pid_, number);
}

void Process::kill() noexcept {
  if (pid_ == 0) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(std::exchange(pid_, 0), nullptr, 0);
}

void Process::stop() const {
  signal(SIGSTOP);
  int status = 0;
  if (::waitpid(pid_, &status, WUNTRACED) != pid_ || !WIFSTOPPED(status)) {
    throw Error("the process can't be stopped");
  }
}

bool Process::gone() const noexcept {
  siginfo_t info{};
  const auto id = static_cast<id_t>(pid_);
  return ::waitid(P_PID, id, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == pid_;
}

void Process::go_on() const noexcept { signal(SIGCONT); }

int Process::exit_status() {
  int status = 0;
  ::waitpid(std::exchange(pid_, 0), &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

void expect_success(std::vector<std::unique_ptr<Process>>& processes) {
  for (const auto& process : processes) EXPECT_EQ(process->exit_status(), 0);
}

Claim claim_of(std::string_view text) {
  const std::size_t colon = text.find(':');
  const Path path = Path::parse(text.substr(0, colon)).value();
  if (colon == std::string_view::npos) return path.exclusive();
  const std::string_view mode = text.substr(colon + 1);
  const std::size_t limit = mode.find(':');
  const std::string_view group = mode.substr(0, limit);
  if (limit == std::string_view::npos) return group == "shared" ? path.shared() : path.group(group);
  return path.group(group,
                    static_cast<std::uint32_t>(std::stoul(std::string{mode}.substr(limit + 1))));
}

namespace {

std::string yes_or_no(bool yes) { return yes ? "yes" : "no"; }

class Client {
 public:
  Client(const std::string& url, const Line& line) : line_(line), space_(open(url)) {}

  void follow(const std::string& command) {
    std::istringstream words{command};
    std::string verb;
    std::string what;
    std::string who;
    words >> verb >> what >> who;
    if (verb == "lock") return line_.say(lock(claim_of(what), who));
    if (verb == "try") return line_.say(try_lock(claim_of(what)));
    if (verb == "token") return line_.say(std::to_string(hold_.token().value));
    if (verb == "renew") return line_.say(yes_or_no(hold_.renew()));
    if (verb == "release") return line_.say(yes_or_no(hold_.release()));
    if (verb == "is") return line_.say(yes_or_no(hold_.lost().stop_requested()));
    if (verb == "until") return line_.say(until_lost());
    if (verb == "limit") {
      terms_ = space_.max_hold(std::chrono::nanoseconds{std::stoll(what)});
      return line_.say("ok");
    }
    throw Error("no such command: " + command);
  }

 private:
  std::string lock(const Claim& claim, const std::string& owner) {
    // SIGINT is blocked in all threads; whoever waits for it here takes it.
    std::stop_source stop;
    std::jthread interrupted{[&stop](const std::stop_token& done) {
      sigset_t signals;
      ::sigemptyset(&signals);
      ::sigaddset(&signals, SIGINT);
      ::sigaddset(&signals, SIGUSR1);
      int number = 0;
      ::sigwait(&signals, &number);
      if (!done.stop_requested()) stop.request_stop();
    }};
    std::string said = "gave up";
    try {
      const Locker& asking = terms_.has_value() ? *terms_ : space_;
      auto hold = (owner.empty() ? asking : space_.as(owner)).lock(claim, stop.get_token());
      if (hold.has_value()) {
        hold_ = *std::move(hold);
        static_cast<void>(hold_.lost());  // From now on it is looked after.
        said = "holds";
      }
    } catch (const Error& error) {
      said = error.what();
    }
    interrupted.request_stop();
    if (!stop.stop_requested()) ::pthread_kill(interrupted.native_handle(), SIGUSR1);
    return said;
  }

  std::string try_lock(const Claim& claim) {
    try {
      auto hold = (terms_.has_value() ? *terms_ : space_).try_lock(claim);
      if (!hold.has_value()) return "taken";
      hold_ = *std::move(hold);
      return "holds";
    } catch (const Error& error) {
      return error.what();
    }
  }

  std::string until_lost() {
    std::mutex mutex;
    std::condition_variable_any told;
    std::unique_lock lock{mutex};
    told.wait(lock, hold_.lost(), [] { return false; });
    return "lost";
  }

  const Line& line_;
  Space space_;
  std::optional<Locker> terms_;
  Hold hold_;
};

}  // namespace

Process::Body client(std::string url) {
  return [url = std::move(url)](const Line& line) {
    sigset_t signals;
    ::sigemptyset(&signals);
    ::sigaddset(&signals, SIGINT);
    ::sigaddset(&signals, SIGUSR1);
    ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
    std::optional<std::string> command = line.hear();
    if (!command.has_value()) return;
    Client self{url, line};
    for (; command.has_value() && *command != "exit"; command = line.hear()) self.follow(*command);
  };
}

File::~File() {
  const auto threads = [] {
    const std::filesystem::directory_iterator tasks{"/proc/self/task"};
    return std::distance(begin(tasks), end(tasks));
  };
  while (threads() > 1) std::this_thread::yield();
}

bool Witness::enter(Token token) {
  const int file = ::open(marker_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (file >= 0) ::close(file);
  const bool alone = state_->inside.fetch_add(1) == 0;
  state_->entered.fetch_add(1);
  return file >= 0 && alone && state_->last.exchange(token.value) < token.value;
}

bool Witness::leave() {
  const bool alone = state_->inside.fetch_sub(1) == 1;
  return ::unlink(marker_.c_str()) == 0 && alone;
}

void Witness::died() noexcept {
  state_->inside.store(0);
  ::unlink(marker_.c_str());
}

}  // namespace tenure::museum
