#include "store/etcd/etcd_test.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <memory>
#include <system_error>
#include <thread>
#include <utility>

#include "tenure/error.hpp"

namespace tenure::etcd {
namespace {

using namespace std::chrono_literals;

constexpr auto poll_time = 10ms;
constexpr int polls = 6000;

sockaddr_in address_of(const std::string& host, int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  ::inet_pton(AF_INET, host.c_str(), &address.sin_addr);
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  return address;
}

std::vector<char*> pointers(const std::vector<std::string>& words) {
  std::vector<char*> all;
  for (const std::string& word : words) all.push_back(const_cast<char*>(word.c_str()));
  all.push_back(nullptr);
  return all;
}

bool accepts(const std::string& host, int port) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const sockaddr_in address = address_of(host, port);
  const bool connected =
      ::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  ::close(fd);
  return connected;
}

// What GET /health of a server without TLS says.
std::string ask_health(const std::string& host, int port) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const sockaddr_in address = address_of(host, port);
  std::string text;
  const timeval limit{.tv_sec = 1, .tv_usec = 0};
  ::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  if (::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) {
    const std::string request = "GET /health HTTP/1.0\r\n\r\n";
    if (::write(fd, request.data(), request.size()) > 0) {
      std::array<char, 512> buffer{};
      for (ssize_t n = 0; (n = ::read(fd, buffer.data(), buffer.size())) > 0;) {
        text.append(buffer.data(), static_cast<std::size_t>(n));
      }
    }
  }
  ::close(fd);
  return text;
}

}  // namespace

std::string run(const std::vector<std::string>& words) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) throw Error("no pipe");
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::dup2(ends[1], STDOUT_FILENO);
    ::dup2(ends[1], STDERR_FILENO);
    ::execvp(words.front().c_str(), pointers(words).data());
    ::_exit(127);
  }
  ::close(ends[1]);
  std::string text;
  std::array<char, 512> buffer{};
  for (ssize_t n = 0; (n = ::read(ends[0], buffer.data(), buffer.size())) > 0;) {
    text.append(buffer.data(), static_cast<std::size_t>(n));
  }
  ::close(ends[0]);
  int status = 0;
  ::waitpid(pid, &status, 0);
  if (status != 0) throw Error(words.front() + " failed: " + text);
  return text;
}

Server::Server(Options options) : options_(std::move(options)) {
  start();
  if (options_.cluster.empty()) await_ready();
}

Server::~Server() { kill(); }

void Server::start() {
  const std::string scheme = options_.tls ? "https://" : "http://";
  const std::string client = scheme + endpoint();
  const std::string peer = "http://" + options_.host + ":" + std::to_string(options_.peer_port);
  std::vector<std::string> words = {
      "etcd",
      "--name=" + options_.name,
      "--data-dir=" + directory_ / "data",
      "--listen-client-urls=" + client,
      "--advertise-client-urls=" + client,
      "--listen-peer-urls=" + peer,
      "--initial-advertise-peer-urls=" + peer,
      "--initial-cluster=" +
          (options_.cluster.empty() ? options_.name + "=" + peer : options_.cluster),
      "--logger=zap",
      "--log-outputs=" + directory_ / "log"};
  words.insert(words.end(), options_.words.begin(), options_.words.end());
  const std::vector<char*> arguments = pointers(words);
  const pid_t parent = ::getpid();
  pid_ = ::fork();
  if (pid_ != 0) return;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // A test that is ended from outside leaves none.
  if (::getppid() != parent) ::_exit(98);
  if (options_.enter) options_.enter();
  // What it has to say is in its log; some of it goes here whatever it is told.
  const int nowhere = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
  ::dup2(nowhere, STDOUT_FILENO);
  ::dup2(nowhere, STDERR_FILENO);
  ::execvp("etcd", arguments.data());
  ::_exit(127);
}

bool Server::ready() const {
  if (options_.tls) return accepts(options_.host, options_.client_port);
  return ask_health(options_.host, options_.client_port).find("\"true\"") != std::string::npos;
}

void Server::await_ready() const {
  for (int i = 0; i < polls; ++i) {
    if (ready()) return;
    if (::waitpid(pid_, nullptr, WNOHANG) != 0) throw Error("etcd ended");
    std::this_thread::sleep_for(poll_time);
  }
  throw Error("etcd does not get ready");
}

// All of its threads have stopped when it is told of: until then one may still answer.
void Server::signal(int number) const {
  ::kill(pid_, number);
  if (number == SIGSTOP) ::waitpid(pid_, nullptr, WUNTRACED);
}

void Server::kill(int number) {
  const pid_t pid = std::exchange(pid_, 0);
  if (pid == 0) return;
  ::kill(pid, number);
  ::waitpid(pid, nullptr, 0);
}

std::string Server::etcdctl(std::vector<std::string> words) const {
  words.insert(words.begin(), {"env", "ETCDCTL_API=3", "etcdctl", "--endpoints=" + endpoint()});
  return run(words);
}

Server& the_server() {
  // Ended with the program, by a destructor, or by the kernel when it is killed.
  static Server server;
  return server;
}

std::string new_prefix() {
  static std::atomic<int> last = 0;
  return "test-" + std::to_string(::getpid()) + "-" + std::to_string(++last);
}

}  // namespace tenure::etcd
