// message.hpp: what an error says.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <string_view>

namespace tenure::kit {

// The text of the Failure that the call throws; a failed expectation where it throws none.
template <typename Failure, typename Call>
[[nodiscard]] std::string message_of(const Call& call) {
  try {
    call();
  } catch (const Failure& error) {
    return error.what();
  }
  ADD_FAILURE() << "it did not throw";
  return {};
}

[[nodiscard]] inline bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

}  // namespace tenure::kit
