// scope.hpp: the file that errors name, and the values that {{...}} stands for in one task.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "pipeline/manifest.hpp"

namespace tenure::pipeline {

// Visible and short enough for a message, in single quotes.
[[nodiscard]] std::string in_quotes(std::string_view text);
// " (did you mean 'x'?)", or nothing.
[[nodiscard]] std::string did_you_mean(std::string_view word,
                                       const std::vector<std::string_view>& known);

// NOLINTBEGIN(readability-redundant-member-init): designated initializers may leave them out.

struct Scope {
  const std::string& file;
  const ManifestOptions& options;
  std::map<std::string, std::string> vars{};
  std::map<std::string, std::string> matrix{};  // Of the task that is read.
  std::string task{};                           // Empty outside of tasks.

  [[noreturn]] void fail(Position position, const std::string& what) const;

  // The text with each {{...}} replaced. `position` is where the text begins, for errors.
  [[nodiscard]] std::string expand(std::string_view text, Position position) const;

  // A text of `when`: A == B, A != B, or a value that is false when it is empty, 0, no or false.
  [[nodiscard]] bool is_true(std::string_view condition, Position position) const;

 private:
  [[nodiscard]] std::string value_of(std::string_view reference, Position position) const;
};

// NOLINTEND(readability-redundant-member-init)

// Letters, digits, _ and -, and no digit first.
[[nodiscard]] bool is_variable_name(std::string_view text) noexcept;

}  // namespace tenure::pipeline
