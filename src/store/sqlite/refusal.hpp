// refusal.hpp: the error for a file that can't be used: its path, the reason, and what to do.
#pragma once

#include <filesystem>
#include <string>
#include <system_error>

#include "tenure/store.hpp"

namespace tenure::sqlite {

[[noreturn]] inline void refuse(const std::filesystem::path& path, const std::string& why) {
  throw StoreError("'" + path.string() + "' " + why);
}

[[nodiscard]] inline std::string text_of(int error) {
  return std::generic_category().message(error);
}

}  // namespace tenure::sqlite
