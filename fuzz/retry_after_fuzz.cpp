// Any bytes as a Retry-After header: a pause within its bounds, or nothing.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <string>
#include <string_view>

#include "net/retry.hpp"

namespace {

void require(bool holds, std::string_view what) {
  if (holds) return;
  std::cerr << "retry_after_fuzz: " << what << '\n';
  std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  // The first four bytes are the time, up to the year 2106.
  std::uint32_t now = 0;
  std::memcpy(&now, data, std::min(size, sizeof now));
  const tenure::net::WallTime wall{std::chrono::seconds{now}};
  const std::string text(data + std::min(size, sizeof now), data + size);
  const auto pause = tenure::net::parse_retry_after(text, wall);
  if (!pause) return 0;
  require(*pause >= std::chrono::seconds{0}, "below zero");
  require(*pause <= std::chrono::days{36'525}, "more than a hundred years");
  require(tenure::net::parse_retry_after(" " + text + "\t", wall) == pause, "blanks count");
  return 0;
}
