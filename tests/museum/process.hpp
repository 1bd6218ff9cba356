// process.hpp: processes of a case, what they are told, and the memory that they share.
//
//   Process writer{client(url)};
//   writer.tell("lock book");           // It waits; the test goes on.
//   EXPECT_EQ(writer.hear(), "holds");  // Now it has it.
//
// A process is forked, so a case makes all of them before it opens a space itself. It is killed
// when its Process goes, or when the test does. What it finds wrong it says, or shows in its exit
// status: a failed expectation in it would be nobody's.
//
// Thread safety: none; one thread makes and asks all processes of a case, because the kernel ends
// a process with the thread that forked it.
#pragma once

#include <sys/mman.h>
#include <sys/types.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "space/any_space.hpp"

namespace tenure::museum {

// One end of a line between two processes. Messages keep their bounds and their order.
class Line {
 public:
  explicit Line(int socket) noexcept : socket_(socket) {}
  void say(std::string_view text) const;
  [[nodiscard]] std::optional<std::string> hear() const;  // Nothing: the other end has gone.
  void close() noexcept;

 private:
  int socket_;
};

class Process {
 public:
  // Runs in the new process, which ends with it: with status 0, or 99 when it throws.
  using Body = std::function<void(const Line& line)>;

  explicit Process(const Body& body);
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;
  ~Process();

  void tell(std::string_view text) const { line_.say(text); }
  [[nodiscard]] std::string hear() const;  // Throws when it has gone.
  [[nodiscard]] std::string ask(std::string_view text) const {
    tell(text);
    return hear();
  }

  void signal(int number) const noexcept;
  void kill() noexcept;  // SIGKILL; when this returns, the process is gone.
  void stop() const;     // SIGSTOP; when this returns, it does not run.
  void go_on() const noexcept;
  [[nodiscard]] bool gone() const noexcept;  // It has ended, and nobody told it to.
  int exit_status();  // Waits for its end. A signal counts as 128 + its number.
  [[nodiscard]] pid_t pid() const noexcept { return pid_; }

 private:
  Line line_;
  pid_t pid_ = 0;
};

// A process that does what it is told with one space and one hold.
//   lock CLAIM [OWNER]   "holds", or what the error says
//   try CLAIM            "holds" or "taken", or what the error says
//   token                the hold's
//   limit NS             requests from now on have this max_hold; "ok"
//   renew, release       "yes" or "no"
//   is lost              whether lost() has fired: "yes" or "no"
//   until lost           waits for it; "lost"
// A CLAIM is PATH, PATH:GROUP or PATH:GROUP:LIMIT. SIGINT ends a wait: "gave up".
[[nodiscard]] Process::Body client(std::string url);
[[nodiscard]] Claim claim_of(std::string_view text);

// Waits until processes said that they are done; each must have ended with status 0.
void expect_success(std::vector<std::unique_ptr<Process>>& processes);

// An object in memory that processes share with whoever forked them.
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

// Catches two who are in at once, in two ways that know nothing of each other: a count in shared
// memory, and a file that only one can make. A process that dies inside leaves both behind: the
// test calls `died`.
class Witness {
 public:
  explicit Witness(std::filesystem::path marker) : marker_(std::move(marker)) {}
  // True: nobody else was in, and the token is larger than all before it.
  [[nodiscard]] bool enter(Token token);
  [[nodiscard]] bool leave();
  void died() noexcept;
  [[nodiscard]] std::uint64_t entered() const noexcept { return state_->entered.load(); }

 private:
  struct State {
    std::atomic<int> inside = 0;
    std::atomic<std::uint64_t> entered = 0;
    std::atomic<std::uint64_t> last = 0;
  };
  const std::filesystem::path marker_;
  const Shared<State> state_;
};

// A SQLite file of its own. It goes when all that was done with it is over, and the threads of the
// library that did it have ended: the next case can fork without company.
class File {
 public:
  File() = default;
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File();

  [[nodiscard]] std::string url() const { return "sqlite:" + path().string(); }
  [[nodiscard]] std::filesystem::path path() const { return directory_.path() / "museum.db"; }
  [[nodiscard]] std::filesystem::path beside(std::string_view name) const {
    return directory_.path() / name;
  }

 private:
  TemporaryDirectory directory_;
};

}  // namespace tenure::museum
