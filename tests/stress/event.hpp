// event.hpp: one line of a worker's log.
//
//   TIME THREAD REQUEST KIND A B WORD CLAIM…
//
//   kind     | written                     | a                    | b        | word    | claims
//   ---------+-----------------------------+----------------------+----------+---------+-----------
//   asked    | before the call             | holds it has already | max_hold | the way | all
//   granted  | after the call              | token                | -        | -       | -
//   until    | after it was read           | deadline             | -        | -       | -
//   narrowed | before the downgrade        | -                    | -        | -       | what stays
//   lost     | as soon as the hold says so | -                    | -        | -       | -
//   leaving  | before the release or drop  | -                    | -        | way out | -
//   left     | after it                    | 1: it was still held | -        | -       | -
//   refused  | after the call              | -                    | -        | why     | -
//   evicting | before the call             | token                | -        | -       | -
//
// An eviction may be of any ticket; its request number is the worker's count of evictions.
//
// Times, including deadlines, are nanoseconds of CLOCK_BOOTTIME: all processes share it, and
// deadlines are counted by it. A line is one write() at the end of the file, made before the worker
// goes on. So SIGKILL loses only events that nobody has seen, and can tear only the last line.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/boot_clock.hpp"
#include "tenure/claim.hpp"

namespace tenure::stress {

struct Event {
  enum class Kind : std::uint8_t {
    asked,
    granted,
    until,
    narrowed,
    lost,
    leaving,
    left,
    refused,
    evicting,
  };
  std::int64_t time = 0;
  unsigned thread = 0;
  std::uint64_t request = 0;  // Counted by the thread.
  Kind kind = Kind::asked;
  std::uint64_t a = 0;
  std::uint64_t b = 0;
  std::string word{};
  std::vector<Claim> claims{};
};

[[nodiscard]] std::string line(const Event& event);  // With its end of line.
[[nodiscard]] std::optional<Event> parse_event(std::string_view line);
// "a/1=exclusive", "a=shared", "a/1=permits:3", "a/1=permits:3:2" (takes 2 of 3).
[[nodiscard]] std::string text(const Claim& claim);
[[nodiscard]] std::optional<Claim> parse_claim(std::string_view text);

using base::boot_ns;

// Thread safety: write() from any thread. Ends the program if a line can't be written completely:
// an incomplete log proves nothing.
class Log {
 public:
  explicit Log(const std::string& path);
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;
  ~Log();
  void write(std::string_view text) const noexcept;

 private:
  int fd_;
};

}  // namespace tenure::stress
