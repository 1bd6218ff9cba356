// process.hpp: child processes of a test, messages to and from them, and memory they share.
//
//   Process writer{[](const Line& line) { line.say("hello " + line.hear().value()); }};
//   EXPECT_EQ(writer.ask("world"), "hello world");
//   EXPECT_EQ(writer.exit_status(), 0);
//
// A Process is a forked function, or a program (`Program`). It is killed with its object, and by
// the kernel when the test ends in any other way. A child reports what it finds wrong by a message
// or by its exit status: a gtest expectation that fails in a child is lost.
//
// Forked functions: create them before the test starts threads or uses gRPC, which does not survive
// a fork.
//
// Thread safety: none. The thread that creates a Process must outlive it: the kernel kills a child
// when the thread that forked it ends.
#pragma once

#include <sys/mman.h>
#include <sys/types.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace tenure::kit {

// Counts, or times in nanoseconds.
using Numbers = std::vector<double>;

// One end of a socket between two processes. Messages keep their bounds and their order.
class Line {
 public:
  explicit Line(int socket) noexcept : socket_(socket) {}
  Line(Line&& other) noexcept;
  Line& operator=(Line&& other) noexcept;
  Line(const Line&) = delete;
  Line& operator=(const Line&) = delete;
  ~Line();

  void say(std::string_view text) const;                  // Not empty.
  [[nodiscard]] std::optional<std::string> hear() const;  // Null: the other end is closed.
  void send(const Numbers& numbers) const;
  [[nodiscard]] std::optional<Numbers> next() const;  // As hear().
  void limit(std::chrono::seconds time) const;  // From now on hear() throws when it waits longer.
  [[nodiscard]] int socket() const noexcept { return socket_; }

 private:
  int socket_;
};

// A program to start, and what it starts with.
struct Program {
  enum class Output : std::uint8_t { inherit, log, pipe };

  std::vector<std::string> words;          // The first one is a path, or a name to find in PATH.
  std::vector<std::string> environment{};  // NAME=value, in addition to our own.
  Output output = Output::inherit;         // Standard output; with `log` and `pipe`, errors too.
  std::filesystem::path log{};             // For Output::log; appended to.
  // Where this process is root: start it as an ordinary user. Some servers refuse to run as root.
  bool as_ordinary_user = false;
  int death_signal = SIGKILL;     // Sent to it when this process ends.
  std::vector<int> block{};       // Signals that it starts with blocked.
  std::function<void()> enter{};  // Called in the child first, to move it into a namespace.
};

class Process {
 public:
  // Runs in the child. The child ends with status 0 when the body returns, and 99 when it throws.
  using Body = std::function<void(const Line& line)>;

  explicit Process(const Body& body);
  explicit Process(const Program& program);
  Process(Process&& other) noexcept;
  Process& operator=(Process&&) = delete;
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;
  ~Process();

  // --- Messages, for a forked body.
  void tell(std::string_view text) const { line_.say(text); }
  [[nodiscard]] std::string hear() const;  // Throws Error when the child has ended.
  [[nodiscard]] std::string ask(std::string_view text) const {
    tell(text);
    return hear();
  }
  [[nodiscard]] const Line& line() const noexcept { return line_; }

  // --- Output, for a program with Output::pipe.
  [[nodiscard]] std::string read_line() const;  // Without its end; empty at the end of the output.
  [[nodiscard]] std::string read_all() const;

  // --- Signals.
  void signal(int number) const noexcept;
  // Sends the signal and waits for the end of the process.
  void kill(int number = SIGKILL) noexcept;
  // As kill(), and SIGKILL for a process that has not ended in time.
  void kill_within(std::chrono::milliseconds limit, int number) noexcept;
  void stop() const;  // SIGSTOP; when this returns, no thread of it runs.
  void go_on() const noexcept { signal(SIGCONT); }

  [[nodiscard]] bool runs() const noexcept;  // False also after kill() and exit_status().
  int exit_status();  // Waits for the end. A signal counts as 128 + its number.
  [[nodiscard]] pid_t pid() const noexcept { return pid_; }
  [[nodiscard]] pid_t release() noexcept { return std::exchange(pid_, 0); }  // The caller waits.

 private:
  Line line_;  // To a body; the read end of the pipe from a program.
  pid_t pid_ = 0;
  pid_t owner_;
};

// Processes that run the same function.
class Children {
 public:
  // `work` gets the index of its process and returns the exit status; 99 where it throws.
  void start(std::size_t count, const std::function<int(std::size_t)>& work);
  void kill(std::size_t index) { processes_.at(index).kill(); }
  [[nodiscard]] std::vector<int> exit_statuses();  // Of those that were not killed.

 private:
  std::vector<Process> processes_;
};

// Runs a program to its end and returns what it wrote. Throws Error when its status is not 0.
std::string run(const std::vector<std::string>& words);
void run(Program program);  // Throws Error with the end of its log.

// Where a program is: in one of `places`, then in PATH.
[[nodiscard]] std::optional<std::filesystem::path> find_program(
    std::string_view name, const std::vector<std::filesystem::path>& places = {});

// The user that as_ordinary_user means; nothing where this process is not root.
struct User {
  uid_t uid;
  gid_t gid;
};
[[nodiscard]] std::optional<User> ordinary_user();

// The last thousand bytes of a file.
[[nodiscard]] std::string end_of(const std::filesystem::path& log);

// An object in memory that forked processes share.
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

// A number in shared memory that processes wait for.
class Signal {
 public:
  void set(std::uint32_t value) noexcept;  // Wakes all waiters.
  // Adds one; for one process at a time. Returns the new value.
  std::uint32_t raise() noexcept {
    const std::uint32_t value = value_.load() + 1;
    set(value);
    return value;
  }
  void reset() noexcept { value_.store(0); }
  void wait_for(std::uint32_t value) const noexcept;       // Exactly this value.
  void wait_at_least(std::uint32_t value) const noexcept;  // This value or a larger one.

 private:
  template <class Reached>
  void wait(Reached reached) const noexcept;

  std::atomic<std::uint32_t> value_ = 0;
};

}  // namespace tenure::kit
