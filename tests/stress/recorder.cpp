#include "tests/stress/recorder.hpp"

#include <utility>

#include "tenure/error.hpp"

namespace tenure::stress {

void Recorder::stop_waiting() {
  const std::scoped_lock lock{mutex_};
  stop_.request_stop();
}

std::stop_token Recorder::new_stop() {
  const std::scoped_lock lock{mutex_};
  stop_ = std::stop_source{};
  return stop_.get_token();
}

void Recorder::write(std::uint64_t request, Event::Kind kind, std::uint64_t a, std::string word,
                     std::vector<Claim> claims, std::uint64_t b) const {
  log_.write(line(Event{.time = boot_ns(),
                        .thread = thread_,
                        .request = request,
                        .kind = kind,
                        .a = a,
                        .b = b,
                        .word = std::move(word),
                        .claims = std::move(claims)}));
}

void Recorder::write_grant(std::uint64_t request, const Hold& hold) const {
  write(request, Event::Kind::granted, hold.token().value);
  grants_.fetch_add(1, std::memory_order_relaxed);
}

bool Recorder::give_back(std::uint64_t request, Hold hold, bool store_may_fail) {
  const bool drops = one_in(random_, 3);
  write(request, Event::Kind::leaving, 0, drops ? "drop" : "release");
  bool was_held = true;
  try {
    if (drops) {
      const Hold dropped = std::move(hold);
    } else {
      was_held = hold.release();
    }
  } catch (const StoreError&) {
    if (!store_may_fail) throw;
  }
  write(request, Event::Kind::left, was_held ? 1 : 0);
  return was_held;
}

std::string one_word(std::string_view text) {
  std::string word{text};
  for (char& c : word) c = c == ' ' || c == '\n' ? '_' : c;
  return word;
}

}  // namespace tenure::stress
