// server.hpp: a rival's server, started for one question and stopped with it.
#pragma once

#include <sys/types.h>

#include <csignal>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tenure::bench::stored {

struct Command {
  std::vector<std::string> words;  // The first one is the program's path.
  // Runs as an ordinary user when we are root: some servers refuse to be started by root.
  bool as_ordinary_user = false;
};

// Where a program is: in one of `places`, then in PATH.
[[nodiscard]] std::optional<std::filesystem::path> find_program(
    std::string_view name, const std::vector<std::filesystem::path>& places = {});

// A new directory in scratch() that the command's user may write.
[[nodiscard]] std::filesystem::path directory_for(const Command& command, std::string_view name);

// Runs it to its end. Throws std::runtime_error, with the end of what it said, when that is bad.
void run(const Command& command);

// A port on the loopback that was free a moment ago.
[[nodiscard]] int free_port();

// Ends with the object, and with this process however that ends.
class Server {
 public:
  // Returns once `ready` does; throws std::runtime_error, with the end of what the server said,
  // when it ends or takes too long before that.
  Server(const Command& command, int stop_signal, const std::function<bool()>& ready);
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;
  ~Server();

  [[nodiscard]] pid_t pid() const noexcept { return pid_; }

 private:
  int stop_signal_;
  std::filesystem::path log_;
  pid_t pid_;
};

}  // namespace tenure::bench::stored
