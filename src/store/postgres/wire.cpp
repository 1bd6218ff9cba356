#include "store/postgres/wire.hpp"

#include <algorithm>

#include "tenure/error.hpp"

namespace tenure::postgres {
namespace {

// Of pg_type.
constexpr unsigned bool_type = 16;
constexpr unsigned bytes_type = 17;
constexpr unsigned number_type = 20;
constexpr unsigned text_type = 25;
constexpr unsigned bools_type = 1000;
constexpr unsigned bytes_array_type = 1001;
constexpr unsigned numbers_type = 1016;

constexpr std::uint32_t null_size = 0xffffffff;

void put32(std::string& to, std::uint64_t value) {
  for (int shift = 24; shift >= 0; shift -= 8) to += static_cast<char>(value >> shift & 0xffU);
}

void put64(std::string& to, std::int64_t value) {
  put32(to, static_cast<std::uint64_t>(value) >> 32U);
  put32(to, static_cast<std::uint64_t>(value) & 0xffffffffU);
}

// One dimension from 1 on; an array of nothing has none.
std::string array_of(unsigned type, std::size_t count) {
  std::string array;
  put32(array, count == 0 ? 0 : 1);
  put32(array, 1);  // There may be nulls.
  put32(array, type);
  if (count == 0) return array;
  put32(array, count);
  put32(array, 1);
  return array;
}

std::uint32_t take32(std::string_view& from) {
  if (from.size() < 4) throw Error("PostgreSQL sent an array that ends too early");
  std::uint32_t value = 0;
  for (const char byte : from.substr(0, 4)) {
    value = value << 8U | static_cast<unsigned char>(byte);
  }
  from.remove_prefix(4);
  return value;
}

}  // namespace

void Params::add(const Bytes& values) {
  std::string array = array_of(bytes_type, values.size());
  for (const auto& value : values) {
    put32(array, value ? value->size() : null_size);
    if (value) array += *value;
  }
  values_.push_back(std::move(array));
  types_.push_back(bytes_array_type);
}

void Params::add(const std::vector<std::optional<std::int64_t>>& values) {
  std::string array = array_of(number_type, values.size());
  for (const auto& value : values) {
    put32(array, value ? 8 : null_size);
    if (value) put64(array, *value);
  }
  values_.push_back(std::move(array));
  types_.push_back(numbers_type);
}

void Params::add(const std::vector<bool>& values) {
  std::string array = array_of(bool_type, values.size());
  for (const bool value : values) {
    put32(array, 1);
    array += value ? '\1' : '\0';
  }
  values_.push_back(std::move(array));
  types_.push_back(bools_type);
}

void Params::add_flag(bool value) {
  values_.emplace_back(1, value ? '\1' : '\0');
  types_.push_back(bool_type);
}

void Params::add_number(std::int64_t value) {
  put64(values_.emplace_back(), value);
  types_.push_back(number_type);
}

void Params::add_text(std::string_view value) {
  values_.emplace_back(value);
  types_.push_back(text_type);
}

void Params::add_bytes(std::string_view value) {
  values_.emplace_back(value);
  types_.push_back(bytes_type);
}

std::size_t Params::size() const noexcept {
  std::size_t size = 0;
  for (const std::string& value : values_) size += value.size();
  return size;
}

std::int64_t number_in(std::string_view value) noexcept {
  std::uint64_t number = 0;
  for (const char byte : value.substr(0, 8)) {
    number = number << 8U | static_cast<unsigned char>(byte);
  }
  return static_cast<std::int64_t>(number);
}

std::vector<std::string_view> elements_in(std::string_view value) {
  std::vector<std::string_view> elements;
  const std::uint32_t dimensions = take32(value);
  take32(value);  // Whether there are nulls.
  take32(value);  // The type.
  if (dimensions == 0) return elements;
  const std::uint32_t count = take32(value);
  take32(value);  // The first index.
  elements.reserve(std::min<std::size_t>(count, value.size() / 4));
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::uint32_t size = take32(value);
    if (size > value.size()) throw Error("PostgreSQL sent an array that ends too early");
    elements.push_back(value.substr(0, size));
    value.remove_prefix(size);
  }
  return elements;
}

}  // namespace tenure::postgres
