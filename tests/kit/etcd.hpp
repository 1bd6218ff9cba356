// etcd.hpp: an etcd server of a test's own: alone, or a member of a cluster.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tests/kit/server.hpp"

namespace tenure::kit {

class Etcd : public Server {
 public:
  struct Options {
    std::vector<std::string> words{};  // More of its command line.
    std::string name = "one";
    std::string host = "127.0.0.1";
    int client_port = free_port();
    int peer_port = free_port();
    std::string cluster{};  // name=url,… of all members; empty: it alone.
    bool tls = false;       // For clients.
    // Called in the new process first, to move it into a namespace.
    std::function<void()> enter{};
  };
  // The server of this program, for tests that do not harm it. The first call starts it.
  [[nodiscard]] static Etcd& instance();
  [[nodiscard]] static bool available() { return find_program("etcd").has_value(); }

  Etcd() : Etcd(Options{}) {}
  explicit Etcd(Options options);  // Ready where it is alone, started where it is a member.

  [[nodiscard]] std::string endpoint() const {
    return options_.host + ":" + std::to_string(options_.client_port);
  }
  [[nodiscard]] std::string url(const std::string& prefix) const {
    return (options_.tls ? "etcds://" : "etcd://") + endpoint() + "/" + prefix;
  }
  [[nodiscard]] bool ready() const override;
  // etcdctl, with the endpoint of this server.
  std::string etcdctl(std::vector<std::string> words) const;

 private:
  const Options options_;
};

// A prefix of keys that no other test uses.
[[nodiscard]] std::string new_prefix();

}  // namespace tenure::kit
