// Shell completions of the command line.
#include <fmt/core.h>

#include <string>
#include <string_view>
#include <vector>

#include "manual.hpp"

namespace tenure::cli {
namespace {

std::string joined(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& word : words) out += (out.empty() ? "" : " ") + word;
  return out;
}

// Names of all options; with `with_value`, only of those that take a value.
std::vector<std::string> names_of(const std::vector<ManualOption>& options, bool with_value) {
  std::vector<std::string> out;
  for (const ManualOption& option : options) {
    if (with_value && option.value.empty()) continue;
    out.insert(out.end(), option.names.begin(), option.names.end());
  }
  return out;
}

std::string replaced(std::string_view text, char what, std::string_view with) {
  std::string out;
  for (const char c : text) {
    if (c == what) {
      out += with;
    } else {
      out += c;
    }
  }
  return out;
}

// Inside single quotes, in any of the three shells' syntax.
std::string quoted(std::string_view text, std::string_view quote) {
  return "'" + replaced(text, '\'', quote) + "'";
}

std::vector<std::string> command_names(const Manual& manual) {
  std::vector<std::string> out;
  out.reserve(manual.commands.size());
  for (const ManualCommand& command : manual.commands) out.push_back(command.name);
  return out;
}

// ---- bash ----

std::string bash_case(const ManualCommand& command) {
  std::string out = fmt::format("    {})\n", command.name);
  for (const ManualOption& option : command.options) {
    if (option.choices().empty()) continue;
    out += fmt::format(
        "      if [[ $previous == {} ]]; then\n"
        "        COMPREPLY=($(compgen -W '{}' -- \"$word\")); return\n"
        "      fi\n",
        option.names.back(), joined(option.choices()));
  }
  const std::vector<std::string> with_value = names_of(command.options, true);
  if (!with_value.empty()) {
    out += fmt::format("      case \" {} \" in *\" $previous \"*) return ;; esac\n",
                       joined(with_value));
  }
  std::vector<std::string> words = names_of(command.options, false);
  if (command.name == "completions") words.insert(words.end(), {"bash", "zsh", "fish"});
  out +=
      fmt::format("      COMPREPLY=($(compgen -W '{}' -- \"$word\"))\n      ;;\n", joined(words));
  return out;
}

std::string bash(const Manual& manual) {
  std::string out =
      "# bash completion for tenure; printed by 'tenure completions bash'\n"
      "_tenure() {\n"
      "  local word=${COMP_WORDS[COMP_CWORD]} previous= i\n"
      "  if (( COMP_CWORD > 1 )); then previous=${COMP_WORDS[COMP_CWORD-1]}; fi\n"
      "  COMPREPLY=()\n"
      "  if (( COMP_CWORD == 1 )); then\n";
  out += fmt::format("    COMPREPLY=($(compgen -W '{} {}' -- \"$word\"))\n",
                     joined(command_names(manual)), joined(names_of(manual.options, false)));
  out +=
      "    return\n"
      "  fi\n"
      "  if [[ ${COMP_WORDS[1]} == @(run|git) ]]; then\n"
      "    for (( i = 2; i < COMP_CWORD; i++ )); do\n"
      "      if [[ ${COMP_WORDS[i]} == -- ]]; then\n"
      "        if declare -F _command_offset >/dev/null; then\n"
      "          _command_offset $(( i + 1 ))\n"
      "        else\n"
      "          COMPREPLY=($(compgen -c -f -- \"$word\"))\n"
      "        fi\n"
      "        return\n"
      "      fi\n"
      "    done\n"
      "  fi\n"
      "  case ${COMP_WORDS[1]} in\n";
  for (const ManualCommand& command : manual.commands) out += bash_case(command);
  return out + "  esac\n}\ncomplete -F _tenure tenure\n";
}

// ---- zsh ----

// The text of an option is in brackets, after a colon: both must be escaped.
std::string zsh_text(std::string_view text) {
  return replaced(replaced(replaced(text, '[', "\\["), ']', "\\]"), ':', "\\:");
}

std::string zsh_option(const ManualOption& option) {
  std::string value;
  if (!option.choices().empty()) {
    value = fmt::format(":value:({})", joined(option.choices()));
  } else if (!option.value.empty()) {
    value = fmt::format(":{}: ", option.value);
  }
  std::string out;
  for (const std::string& name : option.names) {
    const std::string body = fmt::format("{}[{}]{}", name, zsh_text(option.text), value);
    out += fmt::format("        {} \\\n", quoted(body, "'\\''"));
  }
  return out;
}

std::string zsh_case(const ManualCommand& command) {
  std::string out = fmt::format("    {})\n      _arguments -s \\\n", command.name);
  for (const ManualOption& option : command.options) out += zsh_option(option);
  if (takes_command(command.name))
    return out +
           "        '(-)--[end of options; the command follows]' '*:::command:_normal'\n      ;;\n";
  if (command.name == "completions") return out + "        '1:shell:(bash zsh fish)'\n      ;;\n";
  return out + "        '*: :'\n      ;;\n";
}

std::string zsh(const Manual& manual) {
  std::string out =
      "#compdef tenure\n"
      "# zsh completion for tenure; printed by 'tenure completions zsh'\n"
      "_tenure() {\n"
      "  local -a commands\n"
      "  commands=(\n";
  for (const ManualCommand& command : manual.commands) {
    out += fmt::format("    {}\n", quoted(command.name + ":" + zsh_text(command.summary), "'\\''"));
  }
  out +=
      "  )\n"
      "  if (( CURRENT == 2 )); then\n"
      "    _describe command commands\n"
      "    _arguments \\\n";
  for (const ManualOption& option : manual.options) out += zsh_option(option);
  out +=
      "        '*: :'\n"
      "    return\n"
      "  fi\n"
      "  local command=$words[2]\n"
      "  shift words\n"
      "  (( CURRENT-- ))\n"
      "  case $command in\n";
  for (const ManualCommand& command : manual.commands) out += zsh_case(command);
  return out +
         "  esac\n"
         "}\n"
         "if [[ $funcstack[1] == _tenure ]]; then _tenure \"$@\"; else compdef _tenure tenure; "
         "fi\n";
}

// ---- fish ----

std::string fish_option(const ManualOption& option, std::string_view condition) {
  std::string out = "complete -c tenure";
  if (!condition.empty()) out += fmt::format(" -n {}", quoted(condition, "\\'"));
  for (const std::string& name : option.names) {
    out += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
  }
  if (!option.value.empty()) out += " -x";
  if (!option.choices().empty()) out += fmt::format(" -a '{}'", joined(option.choices()));
  return out + fmt::format(" -d {}\n", quoted(option.text, "\\'"));
}

std::string fish(const Manual& manual) {
  std::string out =
      "# fish completion for tenure; printed by 'tenure completions fish'\n"
      "complete -c tenure -f\n";
  for (const ManualOption& option : manual.options) {
    out += fish_option(option, "__fish_use_subcommand");
  }
  for (const ManualCommand& command : manual.commands) {
    const std::string chosen = "__fish_seen_subcommand_from " + command.name;
    out += fmt::format("complete -c tenure -n __fish_use_subcommand -a {} -d {}\n", command.name,
                       quoted(command.summary, "\\'"));
    for (const ManualOption& option : command.options) out += fish_option(option, chosen);
    if (command.name == "completions") {
      out += fmt::format("complete -c tenure -n '{}' -a 'bash zsh fish'\n", chosen);
    }
    if (takes_command(command.name)) {
      out += fmt::format(
          "complete -c tenure -n '{}; and contains -- -- (commandline -opc)' -F "
          "-a '(__fish_complete_command)'\n",
          chosen);
    }
  }
  return out;
}

}  // namespace

std::string completions(const Manual& manual, std::string_view shell) {
  if (shell == "bash") return bash(manual);
  return shell == "zsh" ? zsh(manual) : fish(manual);
}

}  // namespace tenure::cli
