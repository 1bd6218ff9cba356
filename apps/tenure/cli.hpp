// cli.hpp: arguments in, options out.
#pragma once

#include <stdexcept>
#include <string>
#include <utility>

#include "manual.hpp"
#include "options.hpp"

namespace tenure::cli {

// One line that says what is wrong; `command` is the subcommand whose --help explains it, if any.
class UsageError : public std::runtime_error {
 public:
  // NOLINTNEXTLINE(bugprone-easily-swappable-parameters): a sentence and a word.
  explicit UsageError(const std::string& message, std::string of = {})
      : std::runtime_error(message), command(std::move(of)) {}
  std::string command;
};

// Throws UsageError.
[[nodiscard]] Command parse_arguments(int argc, const char* const* argv);
[[nodiscard]] Manual manual();

}  // namespace tenure::cli
