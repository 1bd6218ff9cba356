// descriptor.hpp: a file descriptor that is closed when it goes.
#pragma once

#include <poll.h>
#include <unistd.h>

#include <utility>

namespace tenure::cli {

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

// To wait until there is something to read; -1 waits for nothing.
[[nodiscard]] constexpr pollfd readable(int number) noexcept {
  return {.fd = number, .events = POLLIN, .revents = 0};
}

}  // namespace tenure::cli
