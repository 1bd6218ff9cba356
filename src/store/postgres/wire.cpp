#include "store/postgres/wire.hpp"

#include <algorithm>
#include <array>
#include <cstddef>

#include "tenure/error.hpp"

namespace tenure::postgres {
namespace {

// Type numbers of pg_type.
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

std::array<char, 8> bytes_of(std::int64_t value) {
  std::array<char, 8> bytes{};
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<char>(static_cast<std::uint64_t>(value) >> (56 - (8 * i)) & 0xffU);
  }
  return bytes;
}

void put64(std::string& to, std::int64_t value) {
  const std::array<char, 8> bytes = bytes_of(value);
  to.append(bytes.data(), bytes.size());
}

// One dimension whose first index is 1. An empty array has no dimension.
void put_array(std::string& to, unsigned type, std::size_t count) {
  put32(to, count == 0 ? 0 : 1);
  put32(to, 1);  // The array may contain nulls.
  put32(to, type);
  if (count == 0) return;
  put32(to, count);
  put32(to, 1);
}

std::uint32_t take32(std::string_view& from) {
  if (from.size() < 4)
    throw Error("PostgreSQL sent a truncated value: check the versions of server and client");
  std::uint32_t value = 0;
  for (const char byte : from.substr(0, 4)) {
    value = value << 8U | static_cast<unsigned char>(byte);
  }
  from.remove_prefix(4);
  return value;
}

// A value that is preceded by its size.
std::string_view take_value(std::string_view& from) {
  const std::uint32_t size = take32(from);
  if (size > from.size())
    throw Error("PostgreSQL sent a truncated value: check the versions of server and client");
  const std::string_view value = from.substr(0, size);
  from.remove_prefix(size);
  return value;
}

}  // namespace

// NOLINTNEXTLINE(bugprone-easily-swappable-parameters): what is swapped is only slower.
Params::Params(std::size_t count, std::size_t bytes) {
  bytes_.reserve(bytes);
  begins_.reserve(count);
  types_.reserve(count);
}

void Params::begin(unsigned type) {
  begins_.push_back(bytes_.size());
  types_.push_back(type);
}

std::string_view Params::value(std::size_t index) const noexcept {
  const std::size_t end = index + 1 < begins_.size() ? begins_[index + 1] : bytes_.size();
  return std::string_view{bytes_}.substr(begins_[index], end - begins_[index]);
}

void Params::add(const Bytes& values) {
  begin(bytes_array_type);
  put_array(bytes_, bytes_type, values.size());
  for (const auto& value : values) {
    put32(bytes_, value ? value->size() : null_size);
    if (value) bytes_ += *value;
  }
}

void Params::add(const std::vector<std::optional<std::int64_t>>& values) {
  begin(numbers_type);
  put_array(bytes_, number_type, values.size());
  for (const auto& value : values) {
    put32(bytes_, value ? 8 : null_size);
    if (value) put64(bytes_, *value);
  }
}

void Params::add(const std::vector<bool>& values) {
  begin(bools_type);
  put_array(bytes_, bool_type, values.size());
  for (const bool value : values) {
    put32(bytes_, 1);
    bytes_ += value ? '\1' : '\0';
  }
}

void Params::add_flag(bool value) {
  begin(bool_type);
  bytes_ += value ? '\1' : '\0';
}

void Params::add_number(std::int64_t value) {
  begin(number_type);
  put64(bytes_, value);
}

void Params::set_number(std::size_t index, std::int64_t value) {
  std::ranges::copy(bytes_of(value), bytes_.begin() + static_cast<std::ptrdiff_t>(begins_[index]));
}

void Params::add_text(std::string_view value) {
  begin(text_type);
  bytes_ += value;
}

void Params::add_bytes(std::string_view value) {
  begin(bytes_type);
  bytes_ += value;
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
    elements.push_back(take_value(value));
  }
  return elements;
}

std::vector<std::string_view> fields_in(std::string_view value) {
  std::vector<std::string_view> fields;
  const std::uint32_t count = take32(value);
  for (std::uint32_t i = 0; i < count; ++i) {
    take32(value);  // The type.
    const bool null = value.starts_with("\xff\xff\xff\xff");
    if (null) value.remove_prefix(4);
    fields.push_back(null ? std::string_view{} : take_value(value));
  }
  return fields;
}

}  // namespace tenure::postgres
