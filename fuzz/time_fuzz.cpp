// Any two times: the saturating arithmetic of times is exact between its ends, and a hold with any
// max_hold keeps others out until its deadline, wherever the clock is moved to.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <limits>
#include <memory>
#include <string_view>

#include "tenure/detail/saturating.hpp"
#include "tenure/memory_store.hpp"
#include "tenure/tenure.hpp"

namespace {

using std::chrono::nanoseconds;
using Wide = __int128;

void require(bool holds, std::string_view what) {
  if (holds) return;
  std::cerr << "time_fuzz: " << what << '\n';
  std::abort();
}

nanoseconds clamped(Wide value) {
  constexpr Wide least = std::numeric_limits<std::int64_t>::min();
  constexpr Wide most = std::numeric_limits<std::int64_t>::max();
  return nanoseconds{static_cast<std::int64_t>(std::clamp(value, least, most))};
}

void compute(std::int64_t a, std::int64_t b) {
  using namespace tenure;
  const nanoseconds x{a};
  const nanoseconds y{b};
  require(detail::saturating_add(x, y) == clamped(Wide{a} + b), "a sum");
  require(detail::saturating_sub(x, y) == clamped(Wide{a} - b), "a difference");
  require(detail::saturating_add(Instant{x}, y) == Instant{clamped(Wide{a} + b)}, "a later time");
  require(detail::saturating_sub(Instant{x}, y) == Instant{clamped(Wide{a} - b)}, "an earlier one");
  require(detail::saturating_sub(Instant{x}, Instant{y}) == clamped(Wide{a} - b), "a distance");
  // Near the ends a conversion may already be at them.
  const nanoseconds exact = clamped(Wide{a} * 3'600'000'000'000);
  const nanoseconds hours = detail::to_nanoseconds(std::chrono::hours{a});
  const bool at_end = hours == nanoseconds::max() || hours == nanoseconds::min();
  require(at_end ? (exact < nanoseconds::zero()) == (hours < nanoseconds::zero()) : hours == exact,
          "a conversion");
}

void hold(nanoseconds max_hold, nanoseconds passed) {
  using namespace tenure;
  const auto store = std::make_shared<MemoryStore>(MemoryStore::Clock::virtual_time);
  const Space one = open(store);
  const Space other = open(store);
  const Path book = Path::of("book");
  const Hold held = one.max_hold(max_hold).lock(book);
  const Instant deadline = detail::saturating_add(store->now(), max_hold);
  require(held.deadline() == deadline, "the deadline");
  store->advance(passed);
  require(other.try_lock(book).has_value() == (store->now() >= deadline),
          "held too long, or by two");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::array<std::int64_t, 2> times{};
  std::memcpy(times.data(), data, std::min(size, sizeof times));
  compute(times[0], times[1]);
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
  hold(nanoseconds{std::max<std::int64_t>(times[0] & most, 1)}, nanoseconds{times[1] & most});
  return 0;
}
