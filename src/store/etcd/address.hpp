// address.hpp: an etcd URL.
//
//   etcd://[user[:password]@]host[:port][,host[:port]…][/prefix][?name=value&…]
//   etcds://… the same with TLS
//
//   tls=yes             as etcds
//   ca=FILE             certificate of the authority (PEM); default: those that the system trusts
//   cert=FILE, key=FILE the client's certificate and key: mutual TLS
//   user=, password=    instead of those before the host
//   password_file=FILE  a file whose first line is the password
//   timeout=5s          limit for one call, all endpoints together (ms, s)
//
// The default port is 2379, the default prefix "tenure". Bytes with a meaning in a URL are written
// as %XX.
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

  // For messages: without the password.
  [[nodiscard]] std::string text() const;
};

// Throws Error, whose message never contains the password.
[[nodiscard]] Address parse_address(std::string_view url);
[[nodiscard]] bool is_address(std::string_view url) noexcept;

}  // namespace tenure::etcd
