// child.hpp: processes of a question, and what they share with it.
//
//   Child child{core, [](Line& line) { while (auto words = line.next()) line.send({...}); }};
//   Words answer = child.ask({1, 2});
//
// A child is forked, so make it before this process opens a database or starts a thread. It is
// killed when its Child goes or when this process does; nothing is left to it that has to be tidy.
// One that fails ends this process: others may be waiting for it.
//
// Thread safety: none; all children are made and asked by the first thread, because the kernel ends
// a child with the thread that forked it.
#pragma once

#include <sys/mman.h>
#include <sys/types.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <new>
#include <optional>
#include <system_error>
#include <vector>

namespace tenure::bench::stored {

// What is said over a line: counts, times in nanoseconds.
using Words = std::vector<double>;

// One end of a line between two processes. Messages keep their bounds and their order.
class Line {
 public:
  explicit Line(int socket) noexcept : socket_(socket) {}
  Line(Line&& other) noexcept;
  Line& operator=(Line&&) = delete;
  Line(const Line&) = delete;
  Line& operator=(const Line&) = delete;
  ~Line();

  void send(const Words& words);
  std::optional<Words> next();  // Nothing when the other end has gone.

 private:
  int socket_;
};

class Child {
 public:
  using Body = std::function<void(Line& line)>;

  Child(std::size_t core, const Body& body);  // Pinned there, with all threads it will have.
  Child(Child&& other) noexcept;
  Child& operator=(Child&&) = delete;
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child();

  void tell(const Words& words) { line_.send(words); }
  Words hear();  // Throws std::runtime_error when the child has gone or is silent for too long.
  Words ask(const Words& words) {
    tell(words);
    return hear();
  }

  void kill() noexcept;  // Sends SIGKILL, and does not wait for the end.
  [[nodiscard]] pid_t pid() const noexcept { return pid_; }

 private:
  Child(std::size_t core, const Body& body, std::pair<Line, Line> ends);

  Line line_;
  pid_t pid_;
};

// An object in memory that children share with whoever forked them.
template <class T>
class Shared {
 public:
  Shared()
      : memory_(
            ::mmap(nullptr, sizeof(T), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)) {
    if (memory_ == MAP_FAILED) throw std::system_error(errno, std::generic_category(), "mmap");
    object_ = new (memory_) T;
  }
  Shared(const Shared&) = delete;
  Shared& operator=(const Shared&) = delete;
  ~Shared() { ::munmap(memory_, sizeof(T)); }

  T& operator*() const noexcept { return *object_; }
  T* operator->() const noexcept { return object_; }

 private:
  void* memory_;
  T* object_;
};

// A number that other processes can wait for.
class Signal {
 public:
  void set(std::uint32_t value) noexcept;  // Wakes all who wait.
  // By one; for one process at a time. Returns the new value.
  std::uint32_t raise() noexcept {
    const std::uint32_t value = value_.load() + 1;
    set(value);
    return value;
  }
  void reset() noexcept { value_.store(0); }
  void wait_for(std::uint32_t value) const noexcept;       // Exactly this one.
  void wait_at_least(std::uint32_t value) const noexcept;  // This one, or a larger one.

 private:
  template <class Reached>
  void wait(Reached reached) const noexcept;

  std::atomic<std::uint32_t> value_ = 0;
};

// CLOCK_MONOTONIC, which all processes of a machine share.
[[nodiscard]] inline double now() noexcept {
  return static_cast<double>(std::chrono::steady_clock::now().time_since_epoch().count());
}

}  // namespace tenure::bench::stored
