// address.hpp: what an etcd URL says.
//
//   etcd://[user[:password]@]host[:port][,host[:port]…][/prefix][?name=value&…]
//   etcds://… the same with TLS
//
//   tls=yes             as etcds
//   ca=FILE             who signed the servers' certificates (PEM); else those the system trusts
//   cert=FILE           this client's certificate, and
//   key=FILE            its key: mutual TLS
//   user=, password=    instead of those before the host
//   password_file=FILE  whose first line is the password
//   timeout=5s          how long one call may take, all endpoints together (ms, s)
//
// Without a port it is 2379; without a prefix it is "tenure". Bytes that mean something in a URL
// are written as %XX.
#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

namespace tenure::etcd {

struct Address {
  std::vector<std::string> endpoints;  // host:port
  std::string prefix;
  bool tls = false;
  std::string ca_file;
  std::string cert_file;
  std::string key_file;
  std::string user;
  std::string password;
  std::chrono::milliseconds timeout{5'000};

  // Where it is, for people: never with the password.
  [[nodiscard]] std::string text() const;
};

// Throws Error that says what is wrong, and never has the password in it.
[[nodiscard]] Address parse_address(std::string_view url);
[[nodiscard]] bool is_address(std::string_view url) noexcept;

}  // namespace tenure::etcd
