// codec.hpp: how a value is written: in a slot, in a workflow's log.
//
// Values are JSON, so that people and SQL can read them; specialise Codec for another format.
// This header needs nlohmann-json.
#pragma once

#include <algorithm>
#include <charconv>
#include <concepts>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>

namespace tenure {

// decode() may throw anything; it is reported as an error that names what was read.
template <class T>
struct Codec {
  using Default = void;  // Only here: it needs nlohmann's conversions.
  static constexpr bool is_json = true;
  [[nodiscard]] static std::string encode(const T& value) { return nlohmann::json(value).dump(); }
  [[nodiscard]] static T decode(std::string_view text) {
    return nlohmann::json::parse(text).template get<T>();
  }
};

// The same text without a JSON tree: replay reads a log of a million of them.
template <class T>
  requires(std::integral<T> && !std::same_as<T, bool> && sizeof(T) > 1)
struct Codec<T> {
  static constexpr bool is_json = true;
  [[nodiscard]] static std::string encode(const T& value) { return std::to_string(value); }
  [[nodiscard]] static T decode(std::string_view text) {
    T value{};
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error == std::errc{} && end == text.data() + text.size()) return value;
    return nlohmann::json::parse(text).template get<T>();
  }
};

template <>
struct Codec<std::string> {
  static constexpr bool is_json = true;
  [[nodiscard]] static std::string encode(const std::string& value) {
    if (!is_plain(value)) return nlohmann::json(value).dump();
    std::string text;
    text.reserve(value.size() + 2);
    text += '"';
    text += value;
    text += '"';
    return text;
  }
  [[nodiscard]] static std::string decode(std::string_view text) {
    if (text.size() >= 2 && text.front() == '"' && text.back() == '"') {
      const std::string_view inside = text.substr(1, text.size() - 2);
      if (is_plain(inside)) return std::string{inside};
    }
    return nlohmann::json::parse(text).get<std::string>();
  }

 private:
  // Printable ASCII that JSON writes as itself.
  static bool is_plain(std::string_view text) noexcept {
    return std::ranges::all_of(
        text, [](char c) { return c >= 0x20 && c != 0x7f && c != '"' && c != '\\'; });
  }
};

}  // namespace tenure
