#include "manual.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cstddef>

#include "terminal.hpp"

namespace tenure::cli {
namespace {

constexpr std::size_t columns = 80;

std::string left_of(const ManualOption& option) {
  std::string out;
  for (const std::string& name : option.names) out += (out.empty() ? "" : ", ") + name;
  return option.value.empty() ? out : out + " " + option.value;
}

struct Row {
  std::string left;
  std::string text;
};

std::string section(std::string_view title, const std::vector<Row>& rows) {
  if (rows.empty()) return {};
  std::size_t left = 0;
  for (const Row& row : rows) {
    if (width(row.left) <= 24) left = std::max(left, width(row.left));
  }
  std::string out = fmt::format("\n{}\n", title);
  const std::string indent(left + 4, ' ');
  for (const Row& row : rows) {
    const std::string text = wrap(row.text, columns, indent);
    if (width(row.left) > left) {
      out += fmt::format("  {}\n{}\n", row.left, text);
    } else {
      out += fmt::format("  {:<{}}  {}\n", row.left, left, text.substr(indent.size()));
    }
  }
  return out;
}

std::vector<Row> rows_of(const std::vector<ManualOption>& options) {
  std::vector<Row> rows;
  rows.reserve(options.size());
  for (const ManualOption& option : options)
    rows.push_back({.left = left_of(option), .text = option.text});
  return rows;
}

}  // namespace

std::vector<std::string> ManualOption::choices() const {
  std::vector<std::string> out;
  if (!value.contains('|')) return out;
  for (std::string_view rest = value; !rest.empty();) {
    const std::string_view one = rest.substr(0, rest.find('|'));
    out.emplace_back(one);
    rest.remove_prefix(std::min(rest.size(), one.size() + 1));
  }
  return out;
}

std::string ManualCommand::usage() const {
  std::string out = fmt::format("tenure {} [OPTIONS]", name);
  for (const ManualArgument& argument : arguments) {
    const std::string_view more = argument.many ? "..." : "";
    out += argument.required ? fmt::format(" {}{}", argument.name, more)
                             : fmt::format(" [{}{}]", argument.name, more);
  }
  return out;
}

std::string help_text(const Manual& manual) {
  std::vector<Row> rows;
  rows.reserve(manual.commands.size());
  for (const ManualCommand& command : manual.commands)
    rows.push_back({.left = command.name, .text = command.summary});
  return fmt::format("{}\nUsage: tenure [--space URL] [--json] COMMAND [OPTIONS]\n{}{}\n",
                     manual.summary, section("Commands:", rows),
                     section("Options:", rows_of(manual.options))) +
         "'tenure COMMAND --help' describes one command, 'tenure man' prints the manual.\n";
}

std::string help_text(const ManualCommand& command) {
  std::vector<Row> rows;
  rows.reserve(command.arguments.size());
  for (const ManualArgument& argument : command.arguments) {
    rows.push_back({.left = argument.name, .text = argument.text});
  }
  return fmt::format("{}\nUsage: {}\n{}{}", command.summary, command.usage(),
                     section("Arguments:", rows), section("Options:", rows_of(command.options)));
}

}  // namespace tenure::cli
