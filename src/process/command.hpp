// command.hpp: what a guardian runs: words, environment, directory, files. A value.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/boot_clock.hpp"

namespace tenure::process {

// NOLINTBEGIN(readability-redundant-member-init): designated initializers may leave them out.

// Where a standard descriptor of the command comes from.
struct Target {
  enum class Kind : std::uint8_t {
    inherit,     // That of the process that started the guardian, as it was then.
    file,        // `path`: input is read; output is appended, and the file created if missing.
    descriptor,  // `descriptor` of the caller, which the caller may close after launch().
  };
  Kind kind = Kind::inherit;
  std::string path{};
  int descriptor = -1;

  [[nodiscard]] static Target null() { return file("/dev/null"); }
  [[nodiscard]] static Target file(std::string path) {
    return {.kind = Kind::file, .path = std::move(path)};
  }
  [[nodiscard]] static Target of(int descriptor) {
    return {.kind = Kind::descriptor, .descriptor = descriptor};
  }
};

// Which processes get the signals that a terminal, or kill(-pgid), sends to the command.
enum class Group : std::uint8_t {
  session,  // A session of its own, without a terminal: ssh and sudo fail instead of asking.
  own,      // A process group of its own in the owner's session.
  owner,    // The owner's process group: the command can be in the foreground of its terminal.
};

struct Command {
  static constexpr std::size_t max_descriptors = 8;

  std::vector<std::string> words;          // The program, a path or a name in PATH; its arguments.
  std::vector<std::string> environment{};  // NAME=value sets, NAME alone removes a variable.
  std::string directory{};                 // Empty: the guardian's.
  Target input{};
  Target output{};
  Target error{};
  Group group = Group::session;
  // More of the caller's descriptors: the command has them open, at numbers from 64 on. So has the
  // guardian, until nothing of the command is left.
  std::vector<int> descriptors{};
  // At this time the guardian kills the command and everything that it started.
  std::optional<base::BootTime> kill_at{};

  [[nodiscard]] static Command shell(std::string script) {
    return {.words = {"/bin/sh", "-c", std::move(script)}};
  }
};

// NOLINTEND(readability-redundant-member-init)

}  // namespace tenure::process
