// Any bytes as an entry of a stored space: its key, and the JSON at it.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <optional>
#include <string>
#include <string_view>

#include "space/stored/keys.hpp"
#include "space/stored/row.hpp"
#include "tenure/store.hpp"

namespace {

using tenure::Entry;
using tenure::StoreError;

void require(bool holds, std::string_view what) {
  if (holds) return;
  std::cerr << "row_fuzz: " << what << '\n';
  std::abort();
}

std::optional<tenure::stored::Parsed> parse(const Entry& entry) {
  try {
    return tenure::stored::parse_row(entry);
  } catch (const StoreError& error) {
    require(!std::string_view{error.what()}.empty(), "no reason");
    return std::nullopt;
  }
}

// A ticket is read as it was written; everything else is refused with a reason.
void try_as_row(std::string_view key, std::string value) {
  Entry entry{std::string{key}, std::move(value), {1}, {1}};
  const auto parsed = parse(entry);
  if (!parsed) return;
  require(parsed->row.has_value() != parsed->pointer.has_value(), "neither ticket nor pointer");
  entry.value = parsed->row ? parsed->row->text() : parsed->pointer->text();
  const auto again = parse(entry);
  require(again.has_value(), "its own text is refused");
  require(again->row == parsed->row && again->pointer == parsed->pointer, "it has changed");
  const auto weight = tenure::stored::weight_in(entry);
  require(weight.has_value() && *weight >= 1, "its own text has no weight");
}

void try_as_request(std::string_view key, const std::string& value) {
  try {
    static_cast<void>(tenure::stored::first_claim_in({std::string{key}, value, {1}, {1}}));
  } catch (const StoreError& error) {
    require(!std::string_view{error.what()}.empty(), "no reason");
  }
}

void try_as_session(std::string_view key, const std::string& value) {
  try {
    static_cast<void>(tenure::stored::parse_session({std::string{key}, value, {1}, {1}}));
  } catch (const StoreError& error) {
    require(!std::string_view{error.what()}.empty(), "no reason");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string bytes(data + 1, data + size);
  const std::size_t cut = std::min<std::size_t>(data[0], bytes.size());
  const std::string_view key = std::string_view{bytes}.substr(0, cut);
  const std::string value = bytes.substr(cut);
  const auto parsed = tenure::stored::parse_key(key);
  require(!parsed || tenure::stored::group_in(key) == parsed->claim.mode.name(), "another group");
  static_cast<void>(tenure::stored::number_in(key));
  try_as_row(key, value);
  // Most bytes are no JSON; in a ticket's the rest gets its turn.
  try_as_row(key, R"({"session":"0123456789abcdef","request":1,"since":1,"claims":)" + value + "}");
  try_as_row(key, R"({"session":"0123456789abcdef","request":1,"since":1,"claims":[["a"]],)" +
                      value + "}");
  try_as_row(key, R"({"session":"0123456789abcdef","first":)" + value + "}");
  try_as_row(key, R"({"format":3,"session":"0123456789abcdef","first":["a","g",9,3],"take":)" +
                      value + "}");
  try_as_row(key, R"({"format":3,"session":"0123456789abcdef","request":1,"since":1,"claims":)"
                  R"([["a","g",9,)" +
                      value + "]]}");
  try_as_row(key, R"({"format":2,"by":"0123456789abcdef","request":1,"since":1,"claims":[["a"]],)"
                  R"("anchor":)" +
                      value + "}");
  try_as_row(key, R"({"anchor":["key","a"],"first":["a"],"format":)" + value + "}");
  try_as_request(key, value);
  try_as_session(key, value);
  return 0;
}
