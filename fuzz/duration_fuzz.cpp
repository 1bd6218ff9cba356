// Any bytes as a length of time of the command line.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <string>
#include <string_view>

#include "base/duration.hpp"

namespace {

void require(bool holds, std::string_view what) {
  if (holds) return;
  std::cerr << "duration_fuzz: " << what << '\n';
  std::abort();
}

void show(std::chrono::nanoseconds time) {
  require(!tenure::base::age_text(time).empty(), "an age without a text");
  require(!tenure::base::precise_text(time).empty(), "a time without a text");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(data, data + size);
  if (const auto time = tenure::base::parse_duration(text)) {
    require(*time >= std::chrono::nanoseconds::zero(), "below zero");
    require(*time <= tenure::base::max_duration, "more than is allowed");
    show(*time);
  } else {
    require(!time.error().empty(), "no reason");
  }
  std::int64_t any = 0;
  std::memcpy(&any, data, std::min(size, sizeof any));
  show(std::chrono::nanoseconds{any});
  return 0;
}
