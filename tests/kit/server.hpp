// server.hpp: a server that a test starts for itself. etcd.hpp, pgbouncer.hpp, postgres.hpp and
// redis.hpp each have one kind.
//
//   none --- start() ---> started --- await_ready() ---> ready
//     ^                      |                             |
//     '----- kill(), or the server ends by itself ---------'
//
// A server listens on a free port of the loopback. Its files and its log are in a directory of its
// own. It ends with its object, and by the kernel when the test ends in any other way. Where it
// does not start, the Error has the end of its log.
//
// Thread safety: as Process.
#pragma once

#include <chrono>
#include <csignal>
#include <filesystem>
#include <optional>
#include <string>

#include "tests/kit/process.hpp"
#include "tests/kit/scratch.hpp"

namespace tenure::kit {

class Server {
 public:
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;
  virtual ~Server();

  void start();  // Returns before the server is ready.
  void await_ready();
  virtual void restart();  // Both.
  [[nodiscard]] virtual bool ready() const = 0;

  // Sends a signal. After SIGSTOP this returns when all threads of the server have stopped: until
  // then one could still answer.
  void signal(int number);
  void kill(int number = SIGKILL);  // And waits for the end.
  [[nodiscard]] bool runs() const noexcept { return process_ && process_->runs(); }
  [[nodiscard]] pid_t pid() const noexcept { return process_ ? process_->pid() : 0; }
  [[nodiscard]] int port() const noexcept { return port_; }

 protected:
  // The files are in memory where `parent` is empty.
  Server(const std::string& name, int port, const std::filesystem::path& parent = {});

  // Of the derived class, in its constructor. `stop_signal` ends the server without ado.
  void set_program(Program program, int stop_signal);
  [[nodiscard]] const Scratch& directory() const noexcept { return directory_; }
  [[nodiscard]] std::filesystem::path log() const { return directory_ / "log"; }

 private:
  [[nodiscard]] Process& process();  // Throws Error where it was never started.

  const std::string name_;
  const Scratch directory_;
  const int port_;
  Program program_;
  int stop_signal_ = SIGKILL;
  std::optional<Process> process_;
};

// Whether a TCP server accepts connections there.
[[nodiscard]] bool accepts_connections(const std::string& host, int port);

}  // namespace tenure::kit
