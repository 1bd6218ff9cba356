// git_process.hpp: one call of a program under a guardian, from its start to the end of the last
// process that it started.
//
//   start() ─► read(), write(), in any order ─► wait()
//
// A stop ends everything that the call started; so does its kill_at.
//
// Thread safety: none.
#pragma once

#include <poll.h>

#include <chrono>
#include <cstddef>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>

#include "process/descriptor.hpp"
#include "process/guardian.hpp"

namespace tenure::git {

// How long git may take to remove its lock files when it is asked to end.
inline constexpr std::chrono::seconds git_grace{2};
// The guardian that runs git needs the same, and first lets git end by itself: a git that is killed
// leaves lock files, also at a remote on this machine.
inline constexpr process::GuardianOptions git_guardian{.grace = git_grace,
                                                       .linger = std::chrono::seconds{5}};

class GitProcess {
 public:
  static constexpr std::size_t max_output = std::size_t{64} << 20U;  // The rest is dropped.

  GitProcess(process::Guardian& guardian, const std::stop_token& stop);
  GitProcess(const GitProcess&) = delete;
  GitProcess& operator=(const GitProcess&) = delete;
  // Ends what still runs, and waits for that.
  ~GitProcess();

  // With `talk`, the input is write(), and the output is read(); else the output is collected.
  void start(process::Command command, bool talk);
  // False when the process does not read any more.
  bool write(std::string_view text);
  // What is there, at least one byte; 0 at the end.
  [[nodiscard]] std::size_t read(char* buffer, std::size_t size);
  // Until nothing of it is left. Closes the input first.
  void wait();

  struct Result {
    int status = 0;  // A signal counts as 128 + its number.
    std::string output;
    std::string errors;
    std::optional<int> failed;  // errno: it was not started.
    bool was_stopped = false;
    bool overdue = false;
    bool guardian_died = false;
  };
  [[nodiscard]] Result& result() noexcept { return result_; }

 private:
  struct OutputPipe {
    process::Pipe pipe;
    bool open = true;
    OutputPipe();
    [[nodiscard]] int waited() const noexcept { return open ? pipe.read.get() : -1; }
    void read_into(std::string& text);
  };

  // Waits for anything, `more` included, and handles it.
  void step(pollfd* more);
  void on_event(const process::Event& event);

  process::Guardian& guardian_;
  OutputPipe output_;
  OutputPipe errors_;
  process::Pipe input_;
  bool talks_ = false;
  bool over_ = true;
  Result result_;
  process::Descriptor stopped_;
  std::stop_callback<std::function<void()>> on_stop_;  // Last: it uses `stopped_`.
};

}  // namespace tenure::git
