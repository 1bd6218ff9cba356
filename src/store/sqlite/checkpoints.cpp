#include "store/sqlite/checkpoints.hpp"

#include <system_error>

#include "store/sqlite/threads.hpp"

namespace tenure::sqlite {
namespace {

// What is left to a writer at most, and by how much the log grows between two attempts.
constexpr int short_rest = 500;

}  // namespace

bool Checkpoints::due(int pages) {
  const std::uint32_t stage = stage_.load();
  if (stage == moving || stage == stopped) return false;
  if (pages < long_log) {
    tried_at_ = 0;
    return false;
  }
  const bool short_now = stage == moved && pages >= moved_ && pages - moved_ <= short_rest;
  if (stage == moved) stage_.store(resting);
  if (short_now) {
    tried_at_ = pages;
    return true;
  }
  if (tried_at_ != 0 && pages >= tried_at_ && pages < tried_at_ + short_rest) return false;
  tried_at_ = pages;
  // A log that outgrows the thread is dealt with at once.
  return pages >= 8 * long_log || !ask();
}

// Whether there is a thread for it.
bool Checkpoints::ask() {
  try {
    if (!thread_.joinable()) thread_ = quiet_thread([this] { work(); });
  } catch (const std::system_error&) {
    return false;
  }
  std::uint32_t expected = resting;
  if (stage_.compare_exchange_strong(expected, moving)) stage_.notify_one();
  return true;
}

void Checkpoints::work() noexcept {
  for (;;) {
    const std::uint32_t stage = stage_.load();
    if (stage == stopped) return;
    if (stage != moving) {
      stage_.wait(stage);
      continue;
    }
    moved_ = move_();
    std::uint32_t expected = moving;
    stage_.compare_exchange_strong(expected, moved);
  }
}

void Checkpoints::stop() noexcept {
  stage_.store(stopped);
  stage_.notify_one();
  if (thread_.joinable()) thread_.join();
}

}  // namespace tenure::sqlite
