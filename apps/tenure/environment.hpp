// environment.hpp: environment variables. Read on the main thread; this program sets none.
#pragma once

#include <cstdlib>
#include <string_view>

namespace tenure::cli {

// Empty when it is not set.
[[nodiscard]] inline std::string_view environment(const char* name) {
  const char* const value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): see above.
  return value == nullptr ? std::string_view{} : std::string_view{value};
}

}  // namespace tenure::cli
