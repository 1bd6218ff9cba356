// table.hpp: one table of a manifest, read by the keys that keys.hpp has for its section.
//
// Each function returns null where the key is missing, and fails with the position of what is wrong
// with it. Texts come with their variables replaced.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "pipeline/manifest/keys.hpp"
#include "pipeline/manifest/scope.hpp"
#include "pipeline/manifest/toml.hpp"

namespace tenure::pipeline {

struct Text {
  std::string text;
  Position position;
};

class Table {
 public:
  // Refuses keys that the section does not have, and a table without those that it requires.
  Table(const Scope& scope, Section section, const toml::table& table, Position position);

  [[nodiscard]] const Scope& scope() const noexcept { return *scope_; }
  [[nodiscard]] Position position() const noexcept { return position_; }
  [[nodiscard]] Position position_of_key(std::string_view key) const;

  [[nodiscard]] std::optional<Text> text(std::string_view key) const;
  [[nodiscard]] std::optional<std::vector<Text>> texts(std::string_view key) const;
  [[nodiscard]] std::optional<Invocation> run(std::string_view key) const;
  [[nodiscard]] std::optional<std::uint32_t> count(std::string_view key) const;
  [[nodiscard]] std::optional<bool> flag(std::string_view key) const;
  // Greater than zero, except where `zero` is allowed.
  [[nodiscard]] std::optional<std::chrono::nanoseconds> duration(std::string_view key,
                                                                 bool zero = false) const;
  [[nodiscard]] std::vector<std::pair<Text, std::string>> values(std::string_view key) const;
  [[nodiscard]] std::optional<Table> table(std::string_view key, Section section) const;
  [[nodiscard]] std::vector<Table> tables(std::string_view key, Section section) const;

  // For what has a form of its own. Null: missing.
  [[nodiscard]] const toml::node* node(std::string_view key) const;
  [[noreturn]] void wrong_type(std::string_view key, const toml::node& node) const;
  // A text, a number or a flag as text; null for anything else.
  [[nodiscard]] std::optional<std::string> scalar(const toml::node& node) const;

 private:
  const Scope* scope_;
  Section section_;
  const toml::table* table_;
  Position position_;
};

}  // namespace tenure::pipeline
