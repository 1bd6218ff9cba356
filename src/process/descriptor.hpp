// descriptor.hpp: file descriptors that close themselves.
#pragma once

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <system_error>
#include <utility>

namespace tenure::process {

// Throws the error in errno, which a system call has just set.
[[noreturn]] inline void fail_system(const char* call) {
  throw std::system_error(errno, std::generic_category(), call);
}

class Descriptor {
 public:
  Descriptor() noexcept = default;
  explicit Descriptor(int number) noexcept : number_(number) {}
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    if (this != &other) {
      reset();
      number_ = std::exchange(other.number_, -1);
    }
    return *this;
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() { reset(); }

  [[nodiscard]] int get() const noexcept { return number_; }
  void reset() noexcept {
    if (number_ >= 0) ::close(number_);
    number_ = -1;
  }

 private:
  int number_ = -1;
};

// Closed in programs that this one executes.
struct Pipe {
  Descriptor read;
  Descriptor write;
  Pipe() {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) fail_system("pipe");
    read = Descriptor{ends[0]};
    write = Descriptor{ends[1]};
  }
};

// For poll(): wait until there is something to read. poll() skips the number -1.
[[nodiscard]] constexpr pollfd readable(int number) noexcept {
  return {.fd = number, .events = POLLIN, .revents = 0};
}

}  // namespace tenure::process
