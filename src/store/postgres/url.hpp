// url.hpp: what a `postgres://…` URL says, for libpq and for people.
//
//   postgres://user:password@host:5432/database?sslmode=verify-full&tenure_schema=tenure
//
// Everything that libpq takes, and of our own: `tenure_schema`, the schema that the store is in.
// What the URL leaves open libpq finds in its PG… variables, service and password files.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tenure::postgres {

inline constexpr std::string_view default_schema = "tenure";
inline constexpr std::size_t max_schema_size = 60;  // An identifier of PostgreSQL's has 63.

struct Target {
  // For PQconnectdbParams.
  std::vector<std::string> names;
  std::vector<std::string> values;
  std::string schema;                // As it is called, without quotes.
  std::string shown;                 // postgres://user@host:port/database: fit to be told.
  std::vector<std::string> secrets;  // What must not be.
  // An answer that takes longer is asked after: tcp_user_timeout. Nothing: never.
  std::optional<std::chrono::milliseconds> silence;

  [[nodiscard]] std::string quoted_schema() const;
  // `sql` with the schema's name in the place of each @.
  [[nodiscard]] std::string in_schema(std::string_view sql) const;
  // `text` without secrets, and without the line ends that libpq puts behind messages.
  [[nodiscard]] std::string hide(std::string text) const;
};

[[nodiscard]] bool is_postgres_url(std::string_view url) noexcept;
// Throws Error, with nothing of the URL in it, for one that can't be read.
[[nodiscard]] Target parse_url(std::string_view url);

}  // namespace tenure::postgres
