// url.hpp: a `postgres://…` URL, for libpq and for messages.
//
//   postgres://user:password@host:5432/database?sslmode=verify-full&tenure_schema=tenure
//
// All parameters of libpq, and one of ours: `tenure_schema`, the schema of the store. libpq takes
// what the URL does not say from its PG… variables, service and password files.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tenure::postgres {

inline constexpr std::string_view default_schema = "tenure";
inline constexpr std::size_t max_schema_size = 60;  // Identifiers of PostgreSQL have at most 63.

struct Target {
  // For PQconnectdbParams().
  std::vector<std::string> names;
  std::vector<std::string> values;
  std::string schema;                // The name, without quotes.
  std::string shown;                 // postgres://user@host:port/database, for messages.
  std::vector<std::string> secrets;  // Texts that must not be shown.
  // After so long without an answer the server is asked whether it still works: tcp_user_timeout.
  // Nothing: never.
  std::optional<std::chrono::milliseconds> silence;

  [[nodiscard]] std::string quoted_schema() const;
  // `sql` with the schema's quoted name instead of each @.
  [[nodiscard]] std::string in_schema(std::string_view sql) const;
  // `text` without secrets, and without the line end that libpq adds to messages.
  [[nodiscard]] std::string hide(std::string text) const;
};

// Throws Error for a URL that can't be parsed. The message quotes nothing of the URL.
[[nodiscard]] Target parse_url(std::string_view url);

}  // namespace tenure::postgres
