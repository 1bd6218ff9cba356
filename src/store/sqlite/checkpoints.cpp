#include "store/sqlite/checkpoints.hpp"

#include <algorithm>
#include <system_error>

#include "store/threads.hpp"

namespace tenure::sqlite {
namespace {

constexpr int short_rest = 500;  // Pages that a writer moves itself.
// Another process may be moving the log; then this one moved nothing.
constexpr int gap_of_thread = 100;
constexpr int longest_gap = 64;
// By this factor: writers add pages faster than the thread moves them.
constexpr int too_long = 2;

}  // namespace

bool Checkpoints::due(int pages) {
  const std::uint32_t state = state_.load();
  if (state == moving || state == stopped) return false;
  commits_ = pages < pages_ ? 1 : commits_ + 1;
  pages_ = pages;
  const int start = commits_ < few_commits ? long_log_of_batches : long_log;
  if (pages < start) {
    next_at_ = start;
    gap_ = 1;
    if (state != resting) state_.store(resting);
    return false;
  }
  const bool rest_is_short = state == moved && pages >= moved_ && pages - moved_ <= short_rest;
  if (pages < next_at_ && !rest_is_short) return false;
  if (!rest_is_short && pages < too_long * start && ask()) {
    next_at_ = pages + gap_of_thread;
    return false;
  }
  state_.store(resting);
  next_at_ = pages + gap_;
  gap_ = std::min(2 * gap_, longest_gap);
  return true;
}

// False: no thread can be started.
bool Checkpoints::ask() {
  try {
    if (!thread_.joinable()) thread_ = stores::quiet_thread([this] { work(); });
  } catch (const std::system_error&) {
    return false;
  }
  state_.store(moving);
  state_.notify_one();
  return true;
}

void Checkpoints::work() noexcept {
  for (;;) {
    const std::uint32_t state = state_.load();
    if (state == stopped) return;
    if (state != moving) {
      state_.wait(state);
      continue;
    }
    moved_ = move_();
    std::uint32_t expected = moving;
    state_.compare_exchange_strong(expected, moved);
  }
}

void Checkpoints::stop() noexcept {
  state_.store(stopped);
  state_.notify_one();
  if (thread_.joinable()) thread_.join();
}

}  // namespace tenure::sqlite
