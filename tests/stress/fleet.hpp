// fleet.hpp: the worker processes of a run, and what is done to them.
//
//   none --- start ---> running <--- stop, go_on ---> stopped
//     ^                    |                             |
//     '------- kill, or told to end and waited for ------'
//
// Each start is a process with its own name and log, so a log ends where its process did. Every
// action is logged in driver.log; a kill and a stop are logged before the signal is sent. Children
// die with this process, and all are waited for.
//
// Thread safety: one thread, which must live as long as the fleet: children die with the thread
// that started them.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tests/kit/process.hpp"
#include "tests/stress/event.hpp"

namespace tenure::stress {

class Fleet {
 public:
  // Runs in a new process before it becomes the program, for example to move it into a network of
  // its own. The driver may have threads, so this may make system calls only.
  using Enter = std::function<void(std::size_t slot)>;
  Fleet(std::string program, std::string directory, std::size_t workers, Enter enter = {});
  Fleet(const Fleet&) = delete;
  Fleet& operator=(const Fleet&) = delete;
  ~Fleet();

  [[nodiscard]] std::size_t size() const noexcept { return workers_.size(); }
  [[nodiscard]] bool running(std::size_t slot) const { return workers_[slot].process != nullptr; }
  [[nodiscard]] bool stopped(std::size_t slot) const { return workers_[slot].stopped; }
  [[nodiscard]] const std::string& name(std::size_t slot) const { return workers_[slot].name; }

  // PROGRAM DIRECTORY NAME SLOT and `more`.
  void start(std::size_t slot, const std::vector<std::string>& more);
  void kill(std::size_t slot);
  void stop(std::size_t slot);
  void go_on(std::size_t slot);
  // Records processes that have ended. Returns what is wrong with the way one ended, or nothing.
  [[nodiscard]] std::string reap();
  // Tells all processes to end and waits until they have. Returns what is wrong, or nothing; for a
  // process that has not ended in time, with the text of `describe`.
  using Describe = std::function<std::string(std::size_t slot)>;
  [[nodiscard]] std::string end_all(std::chrono::seconds limit, const Describe& describe);
  // Writes to driver.log what is done to anything but the workers.
  void note(std::string_view what, std::string_view name) const;

 private:
  struct Worker {
    std::unique_ptr<kit::Process> process;
    std::string name;
    bool stopped = false;
    bool told = false;
  };
  const std::string program_;
  const std::string directory_;
  const Enter enter_;
  const Log log_;
  std::vector<Worker> workers_;
  std::size_t started_ = 0;
};

// The path of a program in the directory of this one.
[[nodiscard]] std::string program_beside(const std::string& name);

}  // namespace tenure::stress
