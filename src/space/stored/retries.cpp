#include "space/stored/retries.hpp"

#include <algorithm>
#include <optional>
#include <thread>
#include <utility>

#include "space/stored/keys.hpp"
#include "space/stored/lifetime.hpp"
#include "space/stored/record.hpp"
#include "tenure/detail/saturating.hpp"

namespace tenure::stored {
namespace {

using namespace std::chrono_literals;
constexpr auto retry_time = 100ms;

}  // namespace

void Retries::apply_later(Txn txn, bool anchored) noexcept {
  {
    const base::Mutex::Scoped lock{mutex_};
    retries_.push_back({.txn = std::move(txn), .anchored = anchored});
  }
  start();
}

void Retries::remove_stray(const Row& row) noexcept {
  {
    const base::Mutex::Scoped lock{mutex_};
    strays_.push_back(row);
  }
  start();
}

void Retries::start() noexcept {
  {
    const base::Mutex::Scoped lock{mutex_};
    if (stopped_ || std::exchange(retrying_, true)) return;  // Armed already.
  }
  arm();
}

// The watch may fire, and its notice arm the next one, before it is kept here: it must not displace
// that one.
void Retries::arm() noexcept {
  std::uint64_t round = 0;
  {
    const base::Mutex::Scoped lock{mutex_};
    round = ++round_;
  }
  std::unique_ptr<Watch> watch;
  try {
    WatchFor soon;
    soon.until = detail::saturating_add(store_.latest_now(), retry_time);
    watch = store_.watch(std::move(soon), [this] { retry(); });
  } catch (...) {  // NOLINT(bugprone-empty-catch)
    // No thread, no memory: the next failure, or finish(), tries again.
  }
  const base::Mutex::Scoped lock{mutex_};
  if (round_ != round) return;
  if (watch == nullptr) retrying_ = false;
  if (!stopped_) watch_.swap(watch);
}

bool Retries::retry_one() {
  std::optional<Row> stray;
  std::optional<Txn> txn;
  {
    const base::Mutex::Scoped lock{mutex_};
    if (!strays_.empty()) {
      stray = strays_.front();
    } else if (!retries_.empty()) {
      txn = retries_.front().txn;
    } else {
      retrying_ = false;
      return false;
    }
  }
  if (stray.has_value()) {
    find_stray(*stray);
    const base::Mutex::Scoped lock{mutex_};
    strays_.erase(strays_.begin());
    return true;
  }
  store_.apply(*txn);
  const base::Mutex::Scoped lock{mutex_};
  retries_.erase(retries_.begin());
  return true;
}

void Retries::find_stray(const Row& row) {
  const std::optional<Entry> entry = tickets_.find_appended(row);
  if (!entry.has_value()) return;
  Record stray;
  stray.row = row;
  stray.number = number_in(entry->key);
  apply_later(removal(stray), row.anchored());
}

void Retries::retry() noexcept {
  const Lifetime::InStore in_store;
  try {
    while (retry_one()) {
    }
  } catch (...) {
    if (!session_.lost().stop_requested() || drop_session_tickets()) arm();
  }
}

// The session is lost: other processes remove its tickets. True: anchored ones are left.
bool Retries::drop_session_tickets() noexcept {
  const base::Mutex::Scoped lock{mutex_};
  std::erase_if(retries_, [](const Retry& retry) { return !retry.anchored; });
  std::erase_if(strays_, [](const Row& row) { return !row.anchored(); });
  retrying_ = !retries_.empty() || !strays_.empty();
  return retrying_;
}

void Retries::stop() noexcept {
  std::unique_ptr<Watch> watch;
  const base::Mutex::Scoped lock{mutex_};
  stopped_ = true;
  watch.swap(watch_);
}

bool Retries::worth_retrying() {
  if (!session_.lost().stop_requested()) return true;
  const base::Mutex::Scoped lock{mutex_};
  return std::ranges::any_of(retries_, &Retry::anchored) ||
         std::ranges::any_of(strays_, &Row::anchored);
}

void Retries::finish(std::chrono::nanoseconds limit) noexcept {
  const auto until = std::chrono::steady_clock::now() + limit;
  for (bool left = true; left && worth_retrying();) {
    try {
      left = retry_one();
    } catch (...) {
      if (std::chrono::steady_clock::now() >= until) return;
      std::this_thread::sleep_for(retry_time);
    }
  }
}

}  // namespace tenure::stored
