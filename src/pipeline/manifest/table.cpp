#include "pipeline/manifest/table.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <sstream>

#include "base/duration.hpp"

namespace tenure::pipeline {

Table::Table(const Scope& scope, Section section, const toml::table& table, Position position)
    : scope_(&scope), section_(section), table_(&table), position_(position) {
  for (const auto& [key, value] : table) {
    if (find_key(section, key.str()) != nullptr) continue;
    std::vector<std::string_view> known;
    known.reserve(keys_of(section).size());
    for (const Key& one : keys_of(section)) known.push_back(one.name);
    std::string list;
    for (const std::string_view name : known)
      list += (list.empty() ? "" : ", ") + std::string{name};
    scope.fail(position_of(key), "unknown key " + in_quotes(key.str()) + " in " +
                                     std::string{name_of(section)} +
                                     did_you_mean(key.str(), known) + ": use " + list);
  }
  for (const Key& key : keys_of(section)) {
    if (!key.required || table.contains(key.name)) continue;
    scope.fail(position, std::string{name_of(section)} + " needs `" + std::string{key.name} +
                             "`: add " + std::string{expected(key.kind)});
  }
}

const toml::node* Table::node(std::string_view key) const {
  assert(find_key(section_, key) != nullptr);
  return table_->get(key);
}

Position Table::position_of_key(std::string_view key) const {
  const auto at = table_->find(key);
  return at == table_->end() ? position_ : position_of(at->first);
}

void Table::wrong_type(std::string_view key, const toml::node& node) const {
  scope_->fail(position_of(node), "`" + std::string{key} + "` must be " +
                                      std::string{expected(find_key(section_, key)->kind)});
}

std::optional<Text> Table::text(std::string_view key) const {
  const toml::node* const found = node(key);
  if (found == nullptr) return std::nullopt;
  if (!found->is_string()) wrong_type(key, *found);
  const Position at = position_of(*found);
  return Text{.text = scope_->expand(found->as_string()->get(), at), .position = at};
}

std::optional<std::vector<Text>> Table::texts(std::string_view key) const {
  const toml::node* const found = node(key);
  if (found == nullptr) return std::nullopt;
  const toml::array* const array = found->as_array();
  if (array == nullptr) wrong_type(key, *found);
  std::vector<Text> out;
  out.reserve(array->size());
  for (const toml::node& one : *array) {
    if (!one.is_string()) wrong_type(key, one);
    out.push_back({.text = scope_->expand(one.as_string()->get(), position_of(one)),
                   .position = position_of(one)});
  }
  return out;
}

std::optional<Invocation> Table::run(std::string_view key) const {
  const toml::node* const found = node(key);
  if (found == nullptr) return std::nullopt;
  Invocation out{.words = {}, .shell = found->is_string()};
  if (out.shell) {
    // NOLINTNEXTLINE(bugprone-unchecked-optional-access): it is a text.
    out.words.push_back(text(key)->text);
  } else if (found->is_array()) {
    std::vector<Text> words = texts(key).value_or(std::vector<Text>{});
    for (Text& word : words) out.words.push_back(std::move(word.text));
  } else {
    wrong_type(key, *found);
  }
  if (out.words.empty() || out.words.front().find_first_not_of(" \t\r\n") == std::string::npos) {
    scope_->fail(position_of(*found), "`" + std::string{key} + "` is empty: name a command");
  }
  return out;
}

std::optional<std::uint32_t> Table::count(std::string_view key) const {
  const toml::node* const found = node(key);
  if (found == nullptr) return std::nullopt;
  if (!found->is_integer()) wrong_type(key, *found);
  const std::int64_t value = found->as_integer()->get();
  const Key& limits = *find_key(section_, key);
  if (value < limits.least || value > limits.most) {
    scope_->fail(position_of(*found), "`" + std::string{key} + "` is " + std::to_string(value) +
                                          ": use a number from " + std::to_string(limits.least) +
                                          " to " + std::to_string(limits.most));
  }
  return static_cast<std::uint32_t>(value);
}

std::optional<bool> Table::flag(std::string_view key) const {
  const toml::node* const found = node(key);
  if (found == nullptr) return std::nullopt;
  if (!found->is_boolean()) wrong_type(key, *found);
  return found->as_boolean()->get();
}

std::optional<std::chrono::nanoseconds> Table::duration(std::string_view key, bool zero) const {
  const toml::node* const found = node(key);
  if (found == nullptr) return std::nullopt;
  if (!found->is_string()) wrong_type(key, *found);
  // NOLINTNEXTLINE(bugprone-unchecked-optional-access): it is a text.
  const Text written = *text(key);
  const auto time = base::parse_duration(written.text);
  if (!time) scope_->fail(written.position, "`" + std::string{key} + "`: " + time.error());
  if (time->count() == 0 && !zero) {
    scope_->fail(written.position, "`" + std::string{key} + "` must be greater than zero");
  }
  return *time;
}

std::optional<std::string> Table::scalar(const toml::node& node) const {
  if (const auto* text = node.as_string()) return scope_->expand(text->get(), position_of(node));
  if (const auto* number = node.as_integer()) return std::to_string(number->get());
  if (const auto* flag = node.as_boolean()) return flag->get() ? "true" : "false";
  if (const auto* number = node.as_floating_point();
      number != nullptr && std::isfinite(number->get())) {
    std::ostringstream out;
    out << number->get();
    return out.str();
  }
  return std::nullopt;
}

std::vector<std::pair<Text, std::string>> Table::values(std::string_view key) const {
  std::vector<std::pair<Text, std::string>> out;
  const toml::node* const found = node(key);
  if (found == nullptr) return out;
  const toml::table* const table = found->as_table();
  if (table == nullptr) wrong_type(key, *found);
  for (const auto& [name, value] : *table) {
    std::optional<std::string> text = scalar(value);
    if (!text) wrong_type(key, value);
    out.emplace_back(Text{.text = std::string{name.str()}, .position = position_of(name)},
                     *std::move(text));
  }
  return out;
}

std::optional<Table> Table::table(std::string_view key, Section section) const {
  const toml::node* const found = node(key);
  if (found == nullptr) return std::nullopt;
  if (!found->is_table()) wrong_type(key, *found);
  return Table{*scope_, section, *found->as_table(), position_of_key(key)};
}

std::vector<Table> Table::tables(std::string_view key, Section section) const {
  std::vector<Table> out;
  const toml::node* const found = node(key);
  if (found == nullptr) return out;
  const toml::array* const array = found->as_array();
  if (array == nullptr) wrong_type(key, *found);
  out.reserve(array->size());
  for (const toml::node& one : *array) {
    if (!one.is_table()) wrong_type(key, one);
    out.emplace_back(*scope_, section, *one.as_table(), position_of(one));
  }
  return out;
}

}  // namespace tenure::pipeline
