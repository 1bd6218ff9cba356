// manual.hpp: the command line as data, taken from the definitions that parse arguments: --help,
// the manual page and the shell completions are generated from it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tenure::cli {

struct ManualOption {
  std::vector<std::string> names;  // "-E", "--space"; short ones first.
  std::string value;               // "DURATION", "exclusive|shared"; empty: takes none.
  std::string text;

  [[nodiscard]] std::vector<std::string> choices() const;  // Of a value with '|' in it.
};

struct ManualArgument {
  std::string name;
  std::string text;
  bool required = false;
  bool many = false;
};

struct ManualCommand {
  std::string name;
  std::string summary;
  std::vector<ManualArgument> arguments;
  std::vector<ManualOption> options;

  [[nodiscard]] std::string usage() const;  // "tenure show [OPTIONS] PATH"
};

// Whether a command to run follows, behind `--`.
[[nodiscard]] constexpr bool takes_command(std::string_view name) noexcept {
  return name == "run" || name == "git";
}

struct Manual {
  std::string summary;
  std::vector<ManualOption> options;
  std::vector<ManualCommand> commands;
};

[[nodiscard]] std::string help_text(const Manual& manual);
[[nodiscard]] std::string help_text(const ManualCommand& command);
[[nodiscard]] std::string manual_page(const Manual& manual, std::string_view version);
// `shell` is bash, zsh or fish.
[[nodiscard]] std::string completions(const Manual& manual, std::string_view shell);

}  // namespace tenure::cli
