// flow_values.hpp: values of workflows as text, and the hash of a step's arguments.
#pragma once

#include <concepts>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>

#include "tenure/codec.hpp"
#include "tenure/ticket.hpp"

namespace tenure {

template <>
struct Codec<Token> {
  static constexpr bool is_json = true;
  [[nodiscard]] static std::string encode(const Token& token) {
    return std::to_string(token.value);
  }
  [[nodiscard]] static Token decode(std::string_view text) {
    return {Codec<std::uint64_t>::decode(text)};
  }
};

namespace detail {

// The codec that is not specialised needs nlohmann's conversions.
template <class T>
concept HasJson = requires(const T& value, const nlohmann::json& json) {
  nlohmann::json(value);
  json.template get<T>();
};
template <class T>
concept HasOwnCodec = requires(const T& value, std::string_view text) {
  { Codec<T>::encode(value) } -> std::convertible_to<std::string>;
  { Codec<T>::decode(text) } -> std::convertible_to<T>;
} && !requires { typename Codec<T>::Default; };
template <class T>
concept HasCodec = std::is_object_v<T> && (HasJson<T> || HasOwnCodec<T>);

template <class T>
struct IsOptional : std::false_type {};
template <class T>
struct IsOptional<std::optional<T>> : std::true_type {};

// Results: those of Codec, and nothing ("null") or perhaps nothing.
template <class T>
[[nodiscard]] std::string encode_result(const T& value) {
  if constexpr (std::same_as<T, std::monostate>) {
    return "null";
  } else if constexpr (IsOptional<T>::value) {
    return value ? encode_result(*value) : "null";
  } else {
    return Codec<T>::encode(value);
  }
}
template <class T>
[[nodiscard]] T decode_result(std::string_view text) {
  if constexpr (std::same_as<T, std::monostate>) {
    return {};
  } else if constexpr (IsOptional<T>::value) {
    if (text == "null") return std::nullopt;
    return decode_result<typename T::value_type>(text);
  } else {
    return Codec<T>::decode(text);
  }
}

// void as a value.
template <class T>
using Regular = std::conditional_t<std::is_void_v<T>, std::monostate, T>;

// FNV-1a. Stored: it must not change.
class Hasher {
 public:
  void add(std::string_view bytes) noexcept {
    for (const char c : bytes) value_ = (value_ ^ static_cast<unsigned char>(c)) * 0x100000001B3U;
  }
  template <class T>
  void add_value(const T& value) {
    if constexpr (std::integral<T>) {
      add_number(static_cast<std::uint64_t>(value));
    } else if constexpr (std::convertible_to<const T&, std::string_view>) {
      const std::string_view text = value;
      add_number(text.size());
      add(text);
    } else {
      const std::string text = Codec<T>::encode(value);
      add_number(text.size());
      add(text);
    }
  }
  [[nodiscard]] std::uint64_t value() const noexcept { return value_; }

 private:
  void add_number(std::uint64_t number) noexcept {
    for (int i = 0; i < 8; ++i, number >>= 8U)
      value_ = (value_ ^ (number & 0xffU)) * 0x100000001B3U;
  }
  std::uint64_t value_ = 0xCBF29CE484222325U;
};

// Arguments as a JSON array; those of a codec that is not JSON as strings of hexadecimal digits.
[[nodiscard]] std::string to_hex(std::string_view bytes);
[[nodiscard]] std::string from_hex(std::string_view digits);

template <class T>
void append_argument(std::string& array, const T& value) {
  if (array.size() > 1) array += ',';
  if constexpr (Codec<T>::is_json) {
    array += Codec<T>::encode(value);
  } else {
    array += '"' + to_hex(Codec<T>::encode(value)) + '"';
  }
}
template <class... A>
[[nodiscard]] std::string encode_arguments(const A&... arguments) {
  std::string array = "[";
  (append_argument(array, arguments), ...);
  array += ']';
  return array;
}

template <class T>
[[nodiscard]] T decode_argument(const nlohmann::json& value) {
  if constexpr (Codec<T>::is_json) {
    return Codec<T>::decode(value.dump());
  } else {
    return Codec<T>::decode(from_hex(value.template get<std::string>()));
  }
}
// Throws std::exception where the text is not an array of such values.
template <class... A>
[[nodiscard]] std::tuple<A...> decode_arguments(std::string_view text) {
  const nlohmann::json array = nlohmann::json::parse(text);
  if (!array.is_array() || array.size() != sizeof...(A)) {
    throw BadRequest("there are " + std::to_string(array.size()) + " arguments, not " +
                     std::to_string(sizeof...(A)));
  }
  return [&]<std::size_t... I>(std::index_sequence<I...>) {
    // Braces: from left to right.
    return std::tuple<A...>{decode_argument<A>(array[I])...};
  }(std::index_sequence_for<A...>{});
}

}  // namespace detail
}  // namespace tenure
