// wire.hpp: parameters and results in PostgreSQL's binary format: arrays, bytes, numbers.
//
// Thread safety: none; an object belongs to one call.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tenure::postgres {

// The parameters of one call, in order. One allocation has all their bytes: a lock is two calls
// with a dozen parameters each.
class Params {
 public:
  using Bytes = std::vector<std::optional<std::string_view>>;

  Params() = default;
  // The expected number of parameters, and of bytes.
  Params(std::size_t count, std::size_t bytes);

  void add(const Bytes& values);                                     // bytea[]
  void add(const std::vector<std::optional<std::int64_t>>& values);  // bigint[]
  void add(const std::vector<bool>& values);                         // boolean[]
  void add_flag(bool value);
  void add_number(std::int64_t value);
  void set_number(std::size_t index, std::int64_t value);  // Replaces a number that was added.
  void add_text(std::string_view value);
  void add_bytes(std::string_view value);

  [[nodiscard]] int count() const noexcept { return static_cast<int>(types_.size()); }
  [[nodiscard]] const std::vector<unsigned>& types() const noexcept { return types_; }
  // Valid until the next add.
  [[nodiscard]] std::string_view value(std::size_t index) const noexcept;
  // About as many bytes as are sent.
  [[nodiscard]] std::size_t size() const noexcept { return bytes_.size(); }

 private:
  void begin(unsigned type);  // Begins a parameter, which ends where the next one begins.

  std::string bytes_;
  std::vector<std::size_t> begins_;
  std::vector<unsigned> types_;
};

[[nodiscard]] std::int64_t number_in(std::string_view value) noexcept;  // A bigint.
// The elements of an array without nulls. Throws Error for malformed bytes.
[[nodiscard]] std::vector<std::string_view> elements_in(std::string_view value);
// The fields of a record; none for a null. Throws Error for malformed bytes.
[[nodiscard]] std::vector<std::string_view> fields_in(std::string_view value);

}  // namespace tenure::postgres
