// progress.hpp: the progress of the workers, for the driver: a mapped file of counters.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

#include "tenure/error.hpp"

namespace tenure::stress {

inline constexpr std::size_t max_workers = 64;

class Progress {
 public:
  explicit Progress(const std::string& path) {
    const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || ::ftruncate(fd, sizeof(Counters)) != 0) throw Error("can't open " + path);
    void* const at = ::mmap(nullptr, sizeof(Counters), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    ::close(fd);
    if (at == MAP_FAILED) throw Error("can't map " + path);
    counters_ = static_cast<Counters*>(at);
  }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  ~Progress() { ::munmap(counters_, sizeof(Counters)); }

  [[nodiscard]] std::atomic<std::uint64_t>& grants(std::size_t slot) const {
    return counters_->at(slot);
  }

 private:
  using Counters = std::array<std::atomic<std::uint64_t>, max_workers>;
  Counters* counters_ = nullptr;
};

}  // namespace tenure::stress
