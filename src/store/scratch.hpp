// scratch.hpp: for tests with servers: a directory for a server's files.
#pragma once

#include <signal.h>  // NOLINT: kill is POSIX's.
#include <stdlib.h>  // NOLINT: mkdtemp is POSIX's.
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <filesystem>
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

}  // namespace tenure::stores
