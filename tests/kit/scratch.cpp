#include "tests/kit/scratch.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>  // NOLINT: kill is POSIX's.
#include <stdlib.h>  // NOLINT: mkdtemp is POSIX's.
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdint>
#include <random>
#include <system_error>

#include "tenure/error.hpp"

namespace tenure::kit {
namespace {

namespace fs = std::filesystem;

constexpr std::uintmax_t least_room = 1'000'000'000;

// Removes the directories with this prefix whose owners have ended.
void remove_abandoned(const fs::path& parent, const std::string& prefix) {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator{parent, ignored}) {
    const std::string name = entry.path().filename().string();
    int pid = 0;
    if (!name.starts_with(prefix)) continue;
    const char* const end = name.data() + name.size();
    const auto number = std::from_chars(name.data() + prefix.size(), end, pid);
    if (number.ec != std::errc{} || number.ptr == end || *number.ptr != '-') continue;
    if (pid > 0 && ::kill(pid, 0) != 0 && errno == ESRCH) fs::remove_all(entry.path(), ignored);
  }
}

}  // namespace

fs::path Scratch::in_memory() {
  const fs::path memory = "/dev/shm";
  std::error_code none;
  const auto room = fs::space(memory, none).available;
  const bool usable = !none && room > least_room && ::access(memory.c_str(), W_OK) == 0;
  return usable ? memory : fs::temp_directory_path();
}

Scratch::Scratch(const std::string& prefix, const fs::path& parent) : owner_(::getpid()) {
  remove_abandoned(parent, prefix);
  std::string name = (parent / (prefix + std::to_string(owner_) + "-XXXXXX")).string();
  if (::mkdtemp(name.data()) == nullptr) {
    throw Error("can't create the directory '" + name + "': check the permissions of its parent");
  }
  path_ = name;
}

Scratch::~Scratch() {
  std::error_code ignored;
  if (::getpid() == owner_) fs::remove_all(path_, ignored);
}

int free_port() {
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
  throw Error("found no free port of the loopback between 12000 and 32000 in 100 tries");
}

}  // namespace tenure::kit
