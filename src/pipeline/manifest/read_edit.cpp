#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "pipeline/manifest/read_task.hpp"

namespace tenure::pipeline {
namespace {

using Json = nlohmann::ordered_json;

// Tables are maps in toml++; their keys in the order of the file.
std::vector<std::pair<const toml::key*, const toml::node*>> in_order(const toml::table& table) {
  std::vector<std::pair<const toml::key*, const toml::node*>> out;
  out.reserve(table.size());
  for (const auto& [key, value] : table) out.emplace_back(&key, &value);
  std::ranges::sort(out, [](const auto& a, const auto& b) {
    return a.first->source().begin < b.first->source().begin;
  });
  return out;
}

// NOLINTNEXTLINE(misc-no-recursion): toml++ refuses deeper nesting than 256.
Json json_of(const Table& table, const toml::node& node) {
  const Position at = position_of(node);
  if (const auto* text = node.as_string()) return table.scope().expand(text->get(), at);
  if (const auto* number = node.as_integer()) return number->get();
  if (const auto* flag = node.as_boolean()) return flag->get();
  if (const auto* number = node.as_floating_point()) {
    if (std::isfinite(number->get())) return number->get();
    table.scope().fail(at, "`set` can't write inf or nan: use a finite number");
  }
  if (const auto* array = node.as_array()) {
    Json out = Json::array();
    for (const toml::node& one : *array) out.push_back(json_of(table, one));
    return out;
  }
  if (const auto* inner = node.as_table()) {
    Json out = Json::object();
    for (const auto& [key, value] : in_order(*inner)) {
      out[std::string{key->str()}] = json_of(table, *value);
    }
    return out;
  }
  table.scope().fail(at, "`set` can't write a date or a time: put it in quotes");
}

// "a.'b.c'.d": parts between dots; in quotes, a dot is part of the name.
std::vector<std::string> parts_of(const Table& table, std::string_view key, Position at) {
  std::vector<std::string> parts;
  const auto bad = [&] {
    table.scope().fail(at, "the key " + in_quotes(key) +
                               " has an empty part or an open quote: write a.b, or a.'b.c' for a "
                               "name with a dot in it");
  };
  std::string_view rest = key;
  for (;;) {
    std::size_t size = 0;
    if (!rest.empty() && (rest.front() == '\'' || rest.front() == '"')) {
      const std::size_t end = rest.find(rest.front(), 1);
      if (end == std::string_view::npos) bad();
      parts.emplace_back(rest.substr(1, end - 1));
      size = end + 1;
    } else {
      size = std::min(rest.find('.'), rest.size());
      parts.emplace_back(rest.substr(0, size));
      if (size == 0) bad();
    }
    if (size == rest.size()) return parts;
    if (rest[size] != '.') bad();
    rest.remove_prefix(size + 1);
  }
}

bool is_prefix(const std::vector<std::string>& a, const std::vector<std::string>& b) {
  return a.size() <= b.size() && std::equal(a.begin(), a.end(), b.begin());
}

// `set = { a.b = 1 }` and [task.x.edits.set.a] mean the key a.b; `a = { b = 1 }` is a value.
// NOLINTNEXTLINE(misc-no-recursion): toml++ refuses deeper nesting than 256.
void read_set(const Table& table, const toml::table& set, const std::vector<std::string>& above,
              Edit& edit) {
  for (const auto& [key, value] : in_order(set)) {
    const Position at = position_of(*key);
    std::vector<std::string> path = above;
    for (std::string& part : parts_of(table, key->str(), at)) path.push_back(std::move(part));
    if (const auto* inner = value->as_table(); inner != nullptr && !inner->is_inline()) {
      read_set(table, *inner, path, edit);
      continue;
    }
    for (const Edit::Set& other : edit.set) {
      if (!is_prefix(other.key, path) && !is_prefix(path, other.key)) continue;
      table.scope().fail(at, "`set` has the key " + in_quotes(key->str()) +
                                 " twice, or a key inside of it: keep one of them");
    }
    edit.set.push_back({.key = std::move(path), .value = json_of(table, *value).dump()});
  }
}

Edit::Format format_of(const Table& table, const std::string& file) {
  if (const auto format = table.text("format")) {
    if (format->text == "json") return Edit::Format::json;
    if (format->text == "toml") return Edit::Format::toml;
    if (format->text == "text") return Edit::Format::text;
    table.scope().fail(format->position,
                       "`format` is " + in_quotes(format->text) + ": use json, toml or text");
  }
  if (file.ends_with(".json")) return Edit::Format::json;
  return file.ends_with(".toml") ? Edit::Format::toml : Edit::Format::text;
}

}  // namespace

Edit read_edit(const Table& table) {
  const Scope& scope = table.scope();
  Edit edit;
  // NOLINTNEXTLINE(bugprone-unchecked-optional-access): a required key.
  const Text file = *table.text("file");
  edit.file = file.text;
  edit.position = table.position();
  if (edit.file.empty()) scope.fail(file.position, "`file` is empty: name the file to edit");
  edit.format = format_of(table, edit.file);
  if (const toml::node* set = table.node("set")) {
    if (!set->is_table()) table.wrong_type("set", *set);
    if (edit.format == Edit::Format::text) {
      scope.fail(table.position_of_key("set"),
                 "`set` works in JSON and TOML files: say format = \"json\" or \"toml\", or use "
                 "`replace`");
    }
    read_set(table, *set->as_table(), {}, edit);
  }
  for (const Table& one : table.tables("replace", Section::replacement)) {
    // NOLINTNEXTLINE(bugprone-unchecked-optional-access): a required key.
    const Text from = *one.text("from");
    if (from.text.empty()) scope.fail(from.position, "`from` is empty: name the text to replace");
    // NOLINTNEXTLINE(bugprone-unchecked-optional-access): a required key.
    edit.replace.push_back({.from = from.text, .to = one.text("to")->text});
  }
  if (edit.set.empty() && edit.replace.empty()) {
    scope.fail(table.position(), "this edit changes nothing: add `set` or `replace`");
  }
  return edit;
}

}  // namespace tenure::pipeline
