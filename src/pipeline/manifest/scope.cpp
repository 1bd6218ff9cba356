#include "pipeline/manifest/scope.hpp"

#include <algorithm>
#include <cstddef>
#include <optional>

#include "base/nearest.hpp"
#include "core/escape.hpp"

namespace tenure::pipeline {
namespace {

constexpr std::size_t max_quoted = 80;
constexpr std::size_t max_expanded = 1U << 20U;
constexpr std::size_t max_reference = 256;

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view blank = " \t\r\n";
  const std::size_t from = text.find_first_not_of(blank);
  if (from == std::string_view::npos) return {};
  return text.substr(from, text.find_last_not_of(blank) - from + 1);
}

// Whether the inside of {{...}} is meant for us: a variable, matrix.KEY or env.NAME[|otherwise].
// Other programs have templates with braces too, e.g. docker's {{.Names}} and {{json .}}.
bool is_reference(std::string_view inside) {
  const std::size_t bar = inside.find('|');
  if (inside.starts_with("env.")) return is_variable_name(inside.substr(4, bar - 4));
  if (inside.starts_with("matrix.")) return is_variable_name(inside.substr(7));
  return is_variable_name(inside);
}

}  // namespace

bool is_variable_name(std::string_view text) noexcept {
  const auto letter = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
  };
  const auto inner = [&](char c) { return letter(c) || (c >= '0' && c <= '9') || c == '-'; };
  return !text.empty() && letter(text.front()) && std::ranges::all_of(text, inner);
}

std::string in_quotes(std::string_view text) {
  std::string out = "'";
  const bool cut = text.size() > max_quoted;
  if (cut) {
    text = text.substr(0, max_quoted);
    // Not in the middle of a character.
    while (!text.empty() && (static_cast<unsigned char>(text.back()) & 0xc0U) == 0x80U) {
      text.remove_suffix(1);
    }
    if (!text.empty() && static_cast<unsigned char>(text.back()) >= 0xc0U) text.remove_suffix(1);
  }
  append_escaped(out, text, "");
  out += cut ? "...'" : "'";
  return out;
}

std::string did_you_mean(std::string_view word, const std::vector<std::string_view>& known) {
  const std::string near = base::nearest(word, known);
  return near.empty() ? "" : " (did you mean " + in_quotes(near) + "?)";
}

void Scope::fail(Position position, const std::string& what) const {
  std::string where = file;
  if (position.line != 0) {
    where += ':' + std::to_string(position.line) + ':' + std::to_string(position.column);
  }
  throw ManifestError(where + ": " + what);
}

std::string Scope::value_of(std::string_view reference, Position position) const {
  const auto known_names = [](const std::map<std::string, std::string>& values) {
    std::vector<std::string_view> names;
    names.reserve(values.size());
    for (const auto& [name, value] : values) names.emplace_back(name);
    return names;
  };
  if (reference == "task" && !task.empty()) return task;
  if (reference.starts_with("env.")) {
    const std::size_t bar = reference.find('|');
    const std::string_view name =
        reference.substr(4, bar == std::string_view::npos ? bar : bar - 4);
    std::optional<std::string> value;
    if (options.environment) value = options.environment(name);
    if (value) {
      if (as_utf8(*value) == *value) return *std::move(value);
      fail(position,
           "the environment variable " + in_quotes(name) + " is not valid UTF-8: change it");
    }
    if (bar != std::string_view::npos) return std::string{reference.substr(bar + 1)};
    const std::string text{name};
    fail(position, "the environment variable " + in_quotes(name) +
                       " is not set: set it, or write {{env." + text + "|a default}}");
  }
  if (reference.starts_with("matrix.")) {
    const std::string_view name = reference.substr(7);
    const auto at = matrix.find(std::string{name});
    if (at != matrix.end()) return at->second;
    fail(position, "the matrix of this task has no key " + in_quotes(name) +
                       did_you_mean(name, known_names(matrix)) + ": add it to `matrix`");
  }
  const auto at = vars.find(std::string{reference});
  if (at != vars.end()) return at->second;
  fail(position, "no variable " + in_quotes(reference) +
                     did_you_mean(reference, known_names(vars)) + ": define it in [vars]");
}

std::string Scope::expand(std::string_view text, Position position) const {
  std::string out;
  while (!text.empty()) {
    const std::size_t open = text.find("{{");
    if (open == std::string_view::npos) break;
    const std::string_view rest = text.substr(open + 2, max_reference);
    const std::size_t close = rest.find("}}");
    const std::string_view inside =
        close == std::string_view::npos ? "" : trimmed(rest.substr(0, close));
    out += text.substr(0, open);
    if (is_reference(inside)) {
      out += value_of(inside, position);
      text.remove_prefix(open + close + 4);
    } else {
      out += text[open];  // One brace: a reference may begin at the next one.
      text.remove_prefix(open + 1);
    }
    if (out.size() > max_expanded) {
      fail(position, "with its variables replaced this text has more than a megabyte: shorten it");
    }
  }
  out += text;
  if (out.contains('\0')) fail(position, "this text contains a zero byte: remove it");
  return out;
}

bool Scope::is_true(std::string_view condition, Position position) const {
  // The operator is looked for before variables are replaced: a value can't be taken for one.
  for (const std::string_view sign : {"==", "!="}) {
    const std::size_t at = condition.find(sign);
    if (at == std::string_view::npos) continue;
    const std::string left = expand(trimmed(condition.substr(0, at)), position);
    const std::string right = expand(trimmed(condition.substr(at + 2)), position);
    return (left == right) == (sign == "==");
  }
  const std::string value = expand(trimmed(condition), position);
  return !value.empty() && value != "0" && value != "no" && value != "false";
}

}  // namespace tenure::pipeline
