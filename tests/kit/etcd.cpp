#include "tests/kit/etcd.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <utility>

namespace tenure::kit {
namespace {

// The answer of a server without TLS to GET /health.
std::string health(const std::string& host, int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  ::inet_pton(AF_INET, host.c_str(), &address.sin_addr);
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const timeval limit{.tv_sec = 1, .tv_usec = 0};
  ::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  std::string text;
  const std::string request = "GET /health HTTP/1.0\r\n\r\n";
  if (::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 &&
      ::send(fd, request.data(), request.size(), MSG_NOSIGNAL) > 0) {
    std::array<char, 512> buffer{};
    for (ssize_t n = 0; (n = ::read(fd, buffer.data(), buffer.size())) > 0;) {
      text.append(buffer.data(), static_cast<std::size_t>(n));
    }
  }
  ::close(fd);
  return text;
}

}  // namespace

Etcd::Etcd(Options options) : Server("etcd", options.client_port), options_(std::move(options)) {
  const std::string client = (options_.tls ? "https://" : "http://") + endpoint();
  const std::string peer = "http://" + options_.host + ":" + std::to_string(options_.peer_port);
  const std::string alone = options_.name + "=" + peer;
  Program program{
      .words = {"etcd", "--name=" + options_.name, "--data-dir=" + (directory() / "data").string(),
                "--listen-client-urls=" + client, "--advertise-client-urls=" + client,
                "--listen-peer-urls=" + peer, "--initial-advertise-peer-urls=" + peer,
                "--initial-cluster=" + (options_.cluster.empty() ? alone : options_.cluster),
                "--logger=zap"},
      .enter = options_.enter};
  program.words.insert(program.words.end(), options_.words.begin(), options_.words.end());
  set_program(std::move(program), SIGKILL);
  start();
  if (options_.cluster.empty()) await_ready();
}

bool Etcd::ready() const {
  if (options_.tls) return accepts_connections(options_.host, options_.client_port);
  return health(options_.host, options_.client_port).find("\"true\"") != std::string::npos;
}

std::string Etcd::etcdctl(std::vector<std::string> words) const {
  words.insert(words.begin(), {"env", "ETCDCTL_API=3", "etcdctl", "--endpoints=" + endpoint()});
  return run(words);
}

Etcd& Etcd::instance() {
  static Etcd server;
  return server;
}

std::string new_prefix() {
  static std::atomic<int> last = 0;
  return "test-" + std::to_string(::getpid()) + "-" + std::to_string(++last);
}

}  // namespace tenure::kit
