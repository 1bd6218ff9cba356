// wire.hpp: parameters and results in PostgreSQL's binary format: arrays, bytes, numbers.
//
// Thread safety: none; of one call.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tenure::postgres {

// The parameters of one call, in order.
class Params {
 public:
  using Bytes = std::vector<std::optional<std::string_view>>;

  void add(const Bytes& values);                                     // bytea[]
  void add(const std::vector<std::optional<std::int64_t>>& values);  // bigint[]
  void add(const std::vector<bool>& values);                         // boolean[]
  void add_flag(bool value);
  void add_number(std::int64_t value);
  void add_text(std::string_view value);
  void add_bytes(std::string_view value);

  [[nodiscard]] int count() const noexcept { return static_cast<int>(values_.size()); }
  [[nodiscard]] const std::vector<std::string>& values() const noexcept { return values_; }
  [[nodiscard]] const std::vector<unsigned>& types() const noexcept { return types_; }
  // What is sent, about.
  [[nodiscard]] std::size_t size() const noexcept;

 private:
  std::vector<std::string> values_;
  std::vector<unsigned> types_;
};

[[nodiscard]] std::int64_t number_in(std::string_view value) noexcept;  // A bigint.
// An array without nulls. Throws Error for bytes that are none.
[[nodiscard]] std::vector<std::string_view> elements_in(std::string_view value);

}  // namespace tenure::postgres
