// manifest.hpp: what `tenure pipeline` runs, read from a TOML file. Values, without I/O.
//
//   text ──parse_manifest()──► Manifest, or ManifestError "FILE:LINE:COLUMN: what, and what to do"
//
// Invariants of a Manifest:
//   1. Names are unique, and each name in `needs` is the name of a task.
//   2. The graph has no cycle.
//   3. Variables are replaced, matrices are expanded, and [defaults] are merged: nobody looks at
//      them again.
//   4. Each task has something to run.
//
// Variables. {{NAME}} is a value of [vars], {{matrix.KEY}} a value of the task's matrix,
// {{env.NAME}} and {{env.NAME|otherwise}} the environment, {{task}} the name of the task. Anything
// else between braces stays as it is. Replaced text is not looked at again.
//
// Matrix. A task `test` with matrix = { node = [18, 20], os = ["a"] } becomes test[18,a] and
// test[20,a]. needs = ["test"] means all of them.
//
// Thread safety: values.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "tenure/claim.hpp"
#include "tenure/error.hpp"

namespace tenure::pipeline {

// NOLINTBEGIN(readability-redundant-member-init): designated initializers may leave them out.

class ManifestError : public Error {
 public:
  using Error::Error;
};

// Both count from 1; columns count characters (code points), as editors do.
struct Position {
  std::uint32_t line = 0;
  std::uint32_t column = 0;
  friend bool operator==(const Position&, const Position&) = default;
};

struct Invocation {
  std::vector<std::string> words;  // With `shell`, one: the script.
  bool shell = false;
  friend bool operator==(const Invocation&, const Invocation&) = default;
};

struct Retry {
  std::uint32_t max = 0;  // Attempts after the first.
  std::chrono::nanoseconds base = std::chrono::seconds{1};
  std::chrono::nanoseconds cap = std::chrono::seconds{60};
  friend bool operator==(const Retry&, const Retry&) = default;
};

struct HttpCheck {
  std::string url;
  std::uint32_t status = 200;
  friend bool operator==(const HttpCheck&, const HttpCheck&) = default;
};

// Something to ask: yes when the command exits with 0, or the server answers with that status.
struct Check {
  std::variant<Invocation, HttpCheck> what;
  // `verify` asks again until then; one question of `done` and `when` takes at most that long.
  std::chrono::nanoseconds timeout = std::chrono::seconds{30};
  std::chrono::nanoseconds every = std::chrono::seconds{1};  // Between two questions of `verify`.
  friend bool operator==(const Check&, const Check&) = default;
};

// Changes of one file while the task runs (src/pipeline/edits).
struct Edit {
  enum class Format : std::uint8_t { json, toml, text };
  struct Set {
    std::vector<std::string> key;  // "publishConfig.tag" is two.
    std::string value;             // JSON text.
    friend bool operator==(const Set&, const Set&) = default;
  };
  struct Replace {
    std::string from;  // Occurs exactly once.
    std::string to;
    friend bool operator==(const Replace&, const Replace&) = default;
  };
  std::string file;  // Relative to the task's directory.
  Format format = Format::text;
  std::vector<Set> set{};          // Of json and toml.
  std::vector<Replace> replace{};  // Of any format, after `set`.
  Position position{};
  friend bool operator==(const Edit&, const Edit&) = default;
};

struct Task {
  std::string name;
  std::string group;  // The name in the manifest; another one than `name` where there is a matrix.
  Position position{};
  Invocation run{};
  std::vector<std::string> needs{};  // Names of tasks, each once.
  std::optional<std::chrono::nanoseconds> timeout{};
  std::chrono::nanoseconds grace = std::chrono::seconds{5};  // From SIGTERM to SIGKILL.
  Retry retry{};
  std::vector<Claim> locks{};
  std::vector<Edit> edits{};
  std::optional<Check> done{};    // Yes: the work is done already.
  std::optional<Check> verify{};  // After `run`: the task is done once this says yes.
  std::optional<Check> when{};    // No: the task is skipped.
  bool skip = false;              // `when` was a text, and it was false: the task is skipped.
  std::map<std::string, std::string> env{};
  std::string dir{};  // Relative to the manifest's directory; empty: that directory.
  std::vector<std::string> tags{};
  bool once = false;  // Must not run a second time unless its `done` check says no.
};

struct Manifest {
  std::string file;  // As in error messages.
  std::optional<std::uint32_t> jobs{};
  std::vector<Task> tasks{};  // In the order of the file.
};

struct ManifestOptions {
  std::map<std::string, std::string> vars{};  // Win over [vars], which must have the same names.
  // Null: no variable is set.
  std::function<std::optional<std::string>(std::string_view name)> environment{};
};

// NOLINTEND(readability-redundant-member-init)

inline constexpr std::size_t max_manifest_bytes = 16U << 20U;
inline constexpr std::size_t max_tasks = 100'000;

// `file` is the name for messages. Throws ManifestError.
[[nodiscard]] Manifest parse_manifest(std::string_view text, const std::string& file,
                                      const ManifestOptions& options = {});

// What a task does, as JSON text: two tasks with the same text do the same. A run keeps it, so that
// a manifest that changed in between is noticed, and what changed can be named.
[[nodiscard]] std::string task_text(const Task& task);

// A JSON Schema of manifests, for editors. Made from the table that parse_manifest() uses.
[[nodiscard]] std::string manifest_schema();

}  // namespace tenure::pipeline
