// scratch.hpp: for tests and benchmarks with servers: a directory for a server's files, and a port.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>  // NOLINT: kill is POSIX's.
#include <stdlib.h>  // NOLINT: mkdtemp is POSIX's.
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <filesystem>
#include <random>
#include <string>
#include <system_error>

#include "tenure/error.hpp"

namespace tenure::stores {

// Goes with the object. In memory where that can be had: what power loss does is the servers' own
// business, and a disk that stands still for some seconds would end leases. The name says whose it
// is: what a test that was killed left, the next one removes.
class Scratch {
 public:
  // Of all directories of this kind.
  explicit Scratch(const std::string& prefix) {
    const std::filesystem::path memory = "/dev/shm";
    std::error_code none;
    const auto room = std::filesystem::space(memory, none).available;
    const bool in_memory = !none && room > least_room && ::access(memory.c_str(), W_OK) == 0;
    const std::filesystem::path parent =
        in_memory ? memory : std::filesystem::temp_directory_path();
    remove_those_of_the_dead(parent, prefix);
    std::string name = (parent / (prefix + std::to_string(::getpid()) + "-XXXXXX")).string();
    if (::mkdtemp(name.data()) == nullptr) throw Error("no temporary directory");
    path_ = name;
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch() {
    std::error_code ignored;
    if (::getpid() == owner_) std::filesystem::remove_all(path_, ignored);
  }

  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }
  [[nodiscard]] std::string operator/(const std::string& name) const {
    return (path_ / name).string();
  }

 private:
  static constexpr std::uintmax_t least_room = 1'000'000'000;

  static void remove_those_of_the_dead(const std::filesystem::path& parent,
                                       const std::string& prefix) {
    std::error_code ignored;
    for (const auto& entry : std::filesystem::directory_iterator{parent, ignored}) {
      const std::string name = entry.path().filename().string();
      int pid = 0;
      if (!name.starts_with(prefix)) continue;
      const char* const end = name.data() + name.size();
      const auto number = std::from_chars(name.data() + prefix.size(), end, pid);
      if (number.ec != std::errc{} || number.ptr == end || *number.ptr != '-') continue;
      if (pid > 0 && ::kill(pid, 0) != 0 && errno == ESRCH) {
        std::filesystem::remove_all(entry.path(), ignored);
      }
    }
  }

  const pid_t owner_ = ::getpid();
  std::filesystem::path path_;
};

// One of the loopback that nobody listens at. Below those that the kernel gives to connections: one
// of these may be somebody's before the server has it.
[[nodiscard]] inline int free_port() {
  constexpr int tries = 100;
  std::random_device random;
  std::uniform_int_distribution<int> ports{12'000, 32'000};
  for (int i = 0; i < tries; ++i) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const int port = ports(random);
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const bool bound = ::bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
    ::close(fd);
    if (bound) return port;
  }
  throw Error("no port of the loopback is free");
}

}  // namespace tenure::stores
