// Cron expressions of any text: refused with a message, or times that grow.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "tenure/cron.hpp"
#include "tenure/error.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tenure;
  if (size == 0) return 0;
  const std::string_view text{reinterpret_cast<const char*>(data) + 1, size - 1};
  constexpr std::string_view zones[]{"UTC", "Europe/Berlin", "Australia/Lord_Howe"};
  try {
    const Cron cron{text, zones[data[0] % 3],
                    (data[0] & 16U) != 0 ? MissingTime::skip : MissingTime::at_change,
                    (data[0] & 32U) != 0 ? RepeatedTime::twice : RepeatedTime::once};
    Instant last{std::chrono::seconds{1'774'700'000}};  // Before a change of the clocks.
    for (const Instant time : cron.next(last, 5)) {
      if (time <= last) std::abort();
      last = time;
    }
  } catch (const BadRequest& error) {
    if (std::string_view{error.what()}.empty()) std::abort();
  }
  return 0;
}
