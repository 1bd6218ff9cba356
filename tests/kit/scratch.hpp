// scratch.hpp: a directory that is removed with its object, and a free port.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>

namespace tenure::kit {

// The directory's name holds the process number of its owner: a test that was killed leaves its
// directory behind, and the next test removes it. A forked child does not remove it.
class Scratch {
 public:
  // In memory (/dev/shm) where there is room for a gigabyte: the tests of servers do not test power
  // loss, and a disk that stalls for seconds would end leases.
  explicit Scratch(const std::string& prefix) : Scratch(prefix, in_memory()) {}
  Scratch(const std::string& prefix, const std::filesystem::path& parent);
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch();

  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }
  [[nodiscard]] std::filesystem::path operator/(const std::string& name) const {
    return path_ / name;
  }

 private:
  [[nodiscard]] static std::filesystem::path in_memory();

  const pid_t owner_;
  std::filesystem::path path_;
};

// A directory for files of a test, on the disk that temporary files are on.
class TemporaryDirectory : public Scratch {
 public:
  TemporaryDirectory() : Scratch("tenure-test-", std::filesystem::temp_directory_path()) {}
};

// A port of the loopback that nobody listens on. It is below the range from which the kernel picks
// ports for outgoing connections: one of those could be taken before the server binds it.
[[nodiscard]] int free_port();

}  // namespace tenure::kit
