#include "pipeline/manifest.hpp"

#include <algorithm>
#include <cstddef>

#include "core/escape.hpp"
#include "pipeline/manifest/graph.hpp"
#include "pipeline/manifest/read_task.hpp"

namespace tenure::pipeline {
namespace {

constexpr std::size_t max_name = 128;
constexpr std::size_t max_combinations = 1000;

// What may be part of a task's name: it is typed, printed in tables and separated by commas.
bool can_be_in_name(std::string_view text) {
  std::string shown;
  append_escaped(shown, text, "[], {}\"");
  return shown == text;
}

void check_name(const Scope& scope, std::string_view name, Position position) {
  if (!name.empty() && name.size() <= max_name && can_be_in_name(name)) return;
  scope.fail(position, in_quotes(name) +
                           " can't be the name of a task: use 1 to 128 bytes, without "
                           "spaces, commas, quotes, brackets, braces and control "
                           "characters");
}

// The keys of a matrix with their values, in the order of the file.
using Matrix = std::vector<std::pair<Text, std::vector<std::string>>>;

Matrix read_matrix(const Scope& scope, const toml::table& task) {
  Matrix matrix;
  const toml::node* const node = task.get("matrix");
  if (node == nullptr) return matrix;
  const std::string wrong = "`matrix` must be " + std::string{expected(Kind::matrix)};
  if (!node->is_table()) scope.fail(position_of(*node), wrong);
  const Table reader{scope, Section::task, task, position_of(task)};
  for (const auto& [key, values] : *node->as_table()) {
    auto& [name, texts] =
        matrix.emplace_back(Text{.text = std::string{key.str()}, .position = position_of(key)},
                            std::vector<std::string>{});
    if (!is_variable_name(name.text)) {
      scope.fail(name.position, in_quotes(name.text) +
                                    " can't be a key of `matrix`: use letters, "
                                    "digits, _ and -");
    }
    const toml::array* const array = values.as_array();
    if (array == nullptr || array->empty()) scope.fail(position_of(values), wrong);
    for (const toml::node& one : *array) {
      const std::optional<std::string> text = reader.scalar(one);
      if (!text) scope.fail(position_of(one), wrong);
      if (text->empty() || !can_be_in_name(*text)) {
        scope.fail(position_of(one), in_quotes(*text) +
                                         " would be part of a task's name: use a value "
                                         "without spaces, commas and brackets");
      }
      if (std::ranges::count(texts, *text) != 0) {
        scope.fail(position_of(one), "the value " + in_quotes(*text) + " occurs twice: remove one");
      }
      texts.push_back(*text);
    }
  }
  const auto place = [](const auto& one) {
    return std::pair{one.first.position.line, one.first.position.column};
  };
  std::ranges::sort(matrix, {}, place);
  return matrix;
}

class Reader {
 public:
  Reader(const std::string& file, const ManifestOptions& options)
      : scope_{.file = file, .options = options} {}

  Manifest read(std::string_view text) {
    const toml::table root = parse(text);
    const Table top{scope_, Section::top, root, {.line = 1, .column = 1}};
    Manifest manifest{.file = scope_.file};
    manifest.jobs = top.count("jobs");
    read_vars(top);
    const toml::node* const defaults = top.node("defaults");
    if (defaults != nullptr && !defaults->is_table()) top.wrong_type("defaults", *defaults);
    const toml::node* const tasks = top.node("task");
    if (!tasks->is_table()) top.wrong_type("task", *tasks);
    for (const auto& [name, table] : tables_in_order(top, *tasks->as_table())) {
      read_group(*name, *table, defaults == nullptr ? nullptr : defaults->as_table());
    }
    if (tasks_.empty()) scope_.fail(position_of(*tasks), "there is no task: add [task.NAME]");
    manifest.tasks = resolve_needs(scope_, std::move(tasks_));
    return manifest;
  }

 private:
  [[nodiscard]] toml::table parse(std::string_view text) const {
    if (text.size() > max_manifest_bytes) {
      scope_.fail({}, "the manifest has more than 16 MiB: split it");
    }
    try {
      return toml::parse(text);
    } catch (const toml::parse_error& error) {
      std::string what;
      append_escaped(what, error.description(), "");
      scope_.fail(position_of(error.source()), what);
    }
  }

  void read_vars(const Table& top) {
    for (auto& [name, value] : top.values("vars")) {
      if (!is_variable_name(name.text) || name.text == "task") {
        scope_.fail(name.position, in_quotes(name.text) +
                                       " can't be the name of a variable: use "
                                       "letters, digits, _ and -, and not `task`");
      }
      vars_.emplace(name.text, std::move(value));
    }
    for (const auto& [name, value] : scope_.options.vars) {
      const auto at = vars_.find(name);
      if (at == vars_.end()) {
        std::vector<std::string_view> known;
        known.reserve(vars_.size());
        for (const auto& [one, text] : vars_) known.emplace_back(one);
        scope_.fail(top.position_of_key("vars"), "the manifest has no variable " + in_quotes(name) +
                                                     did_you_mean(name, known) +
                                                     ": define it in [vars]");
      }
      if (as_utf8(value) != value) {
        scope_.fail(top.position_of_key("vars"),
                    "the value given for " + in_quotes(name) + " is not valid UTF-8: change it");
      }
      at->second = value;
    }
    scope_.vars = vars_;
  }

  [[nodiscard]] std::vector<std::pair<const toml::key*, const toml::table*>> tables_in_order(
      const Table& top, const toml::table& tasks) const {
    std::vector<std::pair<const toml::key*, const toml::table*>> out;
    for (const auto& [name, node] : tasks) {
      if (!node.is_table()) top.wrong_type("task", node);
      check_name(scope_, name.str(), position_of(name));
      out.emplace_back(&name, node.as_table());
    }
    std::ranges::sort(out, [](const auto& a, const auto& b) {
      return a.first->source().begin < b.first->source().begin;
    });
    return out;
  }

  // A task, or one for each combination of its matrix.
  void read_group(const toml::key& name, const toml::table& table, const toml::table* defaults) {
    const std::string group{name.str()};
    scope_.task = group;
    scope_.matrix.clear();
    const Matrix matrix = read_matrix(scope_, table);
    std::size_t combinations = 1;
    for (const auto& [key, values] : matrix) {
      combinations *= values.size();
      if (combinations > max_combinations) {
        scope_.fail(key.position, "the matrix of " + in_quotes(group) +
                                      " has more than 1000 "
                                      "combinations: remove some");
      }
    }
    if (tasks_.size() + combinations > max_tasks) {
      scope_.fail(position_of(name), "the manifest has more than 100,000 tasks: split it");
    }
    for (std::size_t number = 0; number < combinations; ++number) {
      if (!matrix.empty()) choose(matrix, group, number, combinations);
      ReadTask read = read_task(scope_, table, position_of(name), defaults);
      read.task.group = group;
      tasks_.push_back(std::move(read));
    }
  }

  // The combination with that number: the last key changes fastest.
  void choose(const Matrix& matrix, const std::string& group, std::size_t number,
              std::size_t combinations) {
    std::string suffix;
    for (const auto& [key, values] : matrix) {
      combinations /= values.size();
      const std::string& value = values[number / combinations % values.size()];
      scope_.matrix.insert_or_assign(key.text, value);
      suffix += (suffix.empty() ? '[' : ',') + value;
    }
    scope_.task = group + suffix + ']';
  }

  Scope scope_;
  std::map<std::string, std::string> vars_;
  std::vector<ReadTask> tasks_;
};

}  // namespace

Manifest parse_manifest(std::string_view text, const std::string& file,
                        const ManifestOptions& options) {
  return Reader{file, options}.read(text);
}

}  // namespace tenure::pipeline
