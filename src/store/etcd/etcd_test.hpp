// etcd_test.hpp: for tests: etcd servers that the test starts on free ports of the loopback, and
// stops.
#pragma once

#include <sys/types.h>

#include <csignal>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "store/scratch.hpp"
#include "tenure/store.hpp"

namespace tenure::etcd {

// For a server's files.
class Directory : public stores::Scratch {
 public:
  Directory() : Scratch("tenure-etcd-") {}
};

using stores::free_port;
// Runs a program to its end; throws Error where it fails. What it printed is returned.
std::string run(const std::vector<std::string>& words);

// One server. Alone, or a member of a cluster whose members are told in the words.
class Server {
 public:
  struct Options {
    std::vector<std::string> words;  // More of its command line.
    std::string name = "one";
    std::string host = "127.0.0.1";
    int client_port = free_port();
    int peer_port = free_port();
    std::string cluster;  // name=url,…; empty: it alone.
    bool tls = false;     // Clients must.
    // Run by the new process first: to put it somewhere else.
    std::function<void()> enter{};
  };
  Server() : Server(Options{}) {}
  explicit Server(Options options);
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;
  ~Server();

  [[nodiscard]] std::string endpoint() const {
    return options_.host + ":" + std::to_string(options_.client_port);
  }
  [[nodiscard]] int port() const noexcept { return options_.client_port; }
  [[nodiscard]] std::string url(const std::string& prefix) const {
    return (options_.tls ? "etcds://" : "etcd://") + endpoint() + "/" + prefix;
  }
  void start();  // Returns before it is ready.
  void await_ready() const;
  void signal(int number) const;
  void kill(int number = SIGKILL);  // And waits for its end.
  [[nodiscard]] bool runs() const noexcept { return pid_ != 0; }
  [[nodiscard]] bool ready() const;
  // With its endpoint.
  std::string etcdctl(std::vector<std::string> words) const;

 private:
  const Options options_;
  const Directory directory_;
  pid_t pid_ = 0;
};

// The one server of this program, started by the first who asks; and a prefix that nobody had.
[[nodiscard]] Server& the_server();
[[nodiscard]] std::string new_prefix();

}  // namespace tenure::etcd
