#include "pipeline/manifest/keys.hpp"

#include <algorithm>
#include <array>

namespace tenure::pipeline {
namespace {

constexpr std::uint32_t max_jobs = 10'000;
constexpr std::uint32_t max_retries = 1000;

// NOLINTBEGIN(modernize-use-designated-initializers): these are tables; keys.hpp has their heads.

constexpr Key timeout{"timeout", Kind::duration, "How long one attempt may take."};
constexpr Key grace{"grace", Kind::duration, "How long a task has from SIGTERM to SIGKILL."};
constexpr Key retry{"retry", Kind::one_retry, "How often, and after which pauses, to try again."};
constexpr Key locks{"locks", Kind::texts, "Claims held while the task runs, e.g. db/users:shared."};
constexpr Key env{"env", Kind::values, "Environment variables of the command."};
constexpr Key dir{"dir", Kind::text, "Where the command runs, relative to the manifest."};
constexpr Key tags{"tags", Kind::texts, "Words by which tasks are selected."};

constexpr std::array top_keys{
    Key{"jobs", Kind::count, "How many tasks run at a time; the number of cores by default.", false,
        1, max_jobs},
    Key{"vars", Kind::values, "Values that {{NAME}} stands for."},
    Key{"defaults", Kind::one_defaults, "What tasks have that do not say otherwise."},
    Key{"task", Kind::tasks, "The tasks, by name.", true},
};
constexpr std::array defaults_keys{timeout, grace, retry, locks, env, dir, tags};
constexpr std::array task_keys{
    Key{"run", Kind::run, "A text goes to the shell; an array is run without one.", true},
    Key{"needs", Kind::texts, "Tasks that must be done first."},
    timeout,
    grace,
    retry,
    locks,
    Key{"edits", Kind::edits, "Changes of files for as long as the task runs."},
    Key{"done", Kind::one_check, "Whether the work is done already."},
    Key{"verify", Kind::one_verify, "What must become true after the command."},
    Key{"when", Kind::condition, "Whether to run the task at all."},
    env,
    dir,
    tags,
    Key{"once", Kind::flag, "The command must not be started a second time."},
    Key{"matrix", Kind::matrix, "One task for each combination of these values."},
};
constexpr std::array retry_keys{
    Key{"max", Kind::count, "How many attempts after the first.", true, 0, max_retries},
    Key{"base", Kind::duration, "The longest pause before the first retry; it doubles each time."},
    Key{"cap", Kind::duration, "The longest pause."},
};
constexpr Key http{"http", Kind::text, "An address to ask with GET."};
constexpr Key status{"status", Kind::count, "The status that means yes.", false, 100, 599};
constexpr Key ask{"run", Kind::run, "A command; exit status 0 means yes."};
constexpr std::array check_keys{http, status, ask,
                                Key{"timeout", Kind::duration, "How long the question may take."}};
constexpr std::array verify_keys{
    http, status, ask,
    Key{"timeout", Kind::duration, "How long to ask again while the answer is no."},
    Key{"every", Kind::duration, "The pause between two questions."}};
constexpr std::array edit_keys{
    Key{"file", Kind::text, "Which file, relative to the task's directory.", true},
    Key{"format", Kind::text, "json, toml or text; by default as the file's name ends."},
    Key{"set", Kind::anything, "Values by dotted key, in JSON and TOML files."},
    Key{"replace", Kind::replacements, "Texts to replace; each must occur exactly once."},
};
constexpr std::array replacement_keys{
    Key{"from", Kind::text, "The text that is there.", true},
    Key{"to", Kind::text, "The text to put there.", true},
};

// NOLINTEND(modernize-use-designated-initializers)

}  // namespace

std::span<const Key> keys_of(Section section) noexcept {
  switch (section) {
    case Section::top: return top_keys;
    case Section::defaults: return defaults_keys;
    case Section::task: return task_keys;
    case Section::retry: return retry_keys;
    case Section::check: return check_keys;
    case Section::verify: return verify_keys;
    case Section::edit: return edit_keys;
    case Section::replacement: return replacement_keys;
  }
  return {};
}

const Key* find_key(Section section, std::string_view name) noexcept {
  const std::span<const Key> keys = keys_of(section);
  const auto at = std::ranges::find(keys, name, &Key::name);
  return at == keys.end() ? nullptr : &*at;
}

std::string_view name_of(Section section) noexcept {
  switch (section) {
    case Section::top: return "a manifest";
    case Section::defaults: return "[defaults]";
    case Section::task: return "a task";
    case Section::retry: return "retry";
    case Section::check: return "a check";
    case Section::verify: return "verify";
    case Section::edit: return "an edit";
    case Section::replacement: return "a replacement";
  }
  return {};
}

std::string_view expected(Kind kind) noexcept {
  switch (kind) {
    case Kind::text: return "a text in quotes";
    case Kind::texts: return "an array of texts";
    case Kind::run: return "a text for the shell, or an array of words";
    case Kind::count: return "a whole number";
    case Kind::flag: return "true or false";
    case Kind::duration: return "a duration in quotes, for example \"1m30s\"";
    case Kind::values: return "a table of texts, numbers or flags";
    case Kind::matrix: return "a table of arrays, for example { node = [18, 20] }";
    case Kind::anything: return "a table, for example { version = \"1.2.3\" }";
    case Kind::condition: return "a condition in quotes, or { run = \"...\" }";
    case Kind::one_retry: return "a table, for example { max = 3, base = \"1s\" }";
    case Kind::one_check:
    case Kind::one_verify: return R"(a table, for example { http = "..." } or { run = "..." })";
    case Kind::edits: return "an array of tables, for example [{ file = \"...\", set = {} }]";
    case Kind::replacements: return R"(an array of tables, for example [{ from = "a", to = "b" }])";
    case Kind::tasks: return "tables: [task.NAME]";
    case Kind::one_defaults: return "a table";
  }
  return {};
}

}  // namespace tenure::pipeline
