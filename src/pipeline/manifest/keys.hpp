// keys.hpp: the one table of a manifest's keys. The parser refuses what is not in it and takes its
// types from it; the JSON Schema is printed from it.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace tenure::pipeline {

// A table of the manifest.
enum class Section : std::uint8_t { top, defaults, task, retry, check, verify, edit, replacement };

// What may stand behind a key.
enum class Kind : std::uint8_t {
  text,
  texts,      // An array.
  run,        // A text for the shell, or an array of words.
  count,      // A whole number, from 0 or 1 on: `least` and `most` of the key.
  flag,       // true or false.
  duration,   // "1m30s".
  values,     // A table of texts, numbers and flags, with names of the user's choice.
  matrix,     // A table of arrays of such values.
  anything,   // A table of any values: what `set` of an edit has.
  condition,  // A text that is true or false, or a check.
  one_retry,  // A table of Section::retry; and so on.
  one_check,
  one_verify,
  edits,         // An array of tables of Section::edit.
  replacements,  // An array of tables of Section::replacement.
  tasks,         // A table of tables of Section::task.
  one_defaults,
};

struct Key {
  std::string_view name;
  Kind kind;
  std::string_view about;
  bool required = false;
  std::uint32_t least = 0;  // Of a count.
  std::uint32_t most = 0;
};

[[nodiscard]] std::span<const Key> keys_of(Section section) noexcept;
[[nodiscard]] const Key* find_key(Section section, std::string_view name) noexcept;

// As messages call it: "a task", "[defaults]".
[[nodiscard]] std::string_view name_of(Section section) noexcept;
// What to write behind such a key: "a text", "an array of texts".
[[nodiscard]] std::string_view expected(Kind kind) noexcept;

}  // namespace tenure::pipeline
