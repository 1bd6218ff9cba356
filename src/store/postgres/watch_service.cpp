// The service thread of Watches: listens, looks up sessions, and calls notices.
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <random>
#include <tuple>
#include <utility>

#include "store/postgres/sessions.hpp"
#include "store/postgres/statements.hpp"
#include "store/postgres/watches.hpp"
#include "tenure/detail/saturating.hpp"

namespace tenure::postgres {
namespace {

using namespace std::chrono_literals;

constexpr std::int64_t second_ns = 1'000'000'000;
// After so long without a watch, this process stops listening, and writers need not notify it.
constexpr std::int64_t idle_ns = 5 * second_ns;

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : 0;
}

std::string from_hex(std::string_view hex) {
  std::string bytes;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes += static_cast<char>((hex_digit(hex[i]) * 16) + hex_digit(hex[i + 1]));
  }
  return bytes;
}

// "REVISION KEY KEY …", in hexadecimal digits, or "REVISION *".
template <typename Change>
Change change_in(std::string_view payload) {
  Change change;
  const auto parsed =
      std::from_chars(payload.data(), payload.data() + payload.size(), change.revision.value);
  payload.remove_prefix(static_cast<std::size_t>(parsed.ptr - payload.data()));
  while (!payload.empty()) {
    payload.remove_prefix(1);
    const std::size_t end = std::min(payload.find(' '), payload.size());
    const std::string_view word = payload.substr(0, end);
    if (word == "*") {
      change.anything = true;
    } else {
      change.keys.push_back(from_hex(word));
    }
    payload.remove_prefix(end);
  }
  return change;
}

}  // namespace

void Watches::serve() {
  Lock lock{table_.mutex};
  while (!stopping_) {
    listen();
    hear();
    probe();
    look_at_timers();
    look_at_sessions();
    if (stopping_) break;
    if (table_.any_ready()) {
      table_.run_next();
    } else {
      sleep();
    }
  }
  lock.unlock();
  connection_.reset();
}

void Watches::look_at_timers() {
  if (!table_.next_time()) return;
  table_.mutex.unlock();
  Instant now{};
  try {
    now = executor_->estimate();
  } catch (...) {
    now = {};
  }
  table_.mutex.lock();
  table_.reached(now);
}

// --- listening

// LISTEN takes effect at the commit of its transaction. The advisory lock must be held before the
// head is read.
void Watches::start_listening() {
  if (!connection_) connection_ = executor_->connect(0ms);
  if (connection_->pooled()) return;
  connection_->execute("LISTEN \"" + executor_->channel() + '"');
  connection_->execute("SELECT pg_advisory_lock_shared(" + std::to_string(advisory_class) + "," +
                       std::to_string(static_cast<std::int32_t>(executor_->schema_number())) + ')');
}

void Watches::stop_listening() {
  connection_->execute("UNLISTEN *");
  connection_->execute("SELECT pg_advisory_unlock_shared(" + std::to_string(advisory_class) + "," +
                       std::to_string(static_cast<std::int32_t>(executor_->schema_number())) + ')');
}

void Watches::lose_connection() {
  connection_.reset();
  executor_->doubt();
  was_lost_ = was_lost_ || known_from_.has_value();
  known_from_.reset();
  recent_.clear();
  std::random_device random;
  retry_at_ = boot_ns() + reconnect_.next(random).count();
}

void Watches::listen() {
  const std::int64_t now = boot_ns();
  if (wanted()) idle_since_ = now;
  if (executor_->pooled() && connection_ == nullptr) {
    read_slowly();
    return;
  }
  if (known_from_) {
    if (now - idle_since_ < idle_ns) return;
    known_from_.reset();
    recent_.clear();
    table_.mutex.unlock();
    try {
      stop_listening();
    } catch (...) {
      connection_.reset();
    }
    table_.mutex.lock();
    return;
  }
  if (!wanted() || now < retry_at_) return;
  table_.mutex.unlock();
  std::optional<Revision> newest;
  try {
    start_listening();
    if (connection_->pooled()) {
      connection_.reset();
    } else {
      const Result head =
          connection_->execute(executor_->target().in_schema("SELECT revision FROM @.head"));
      newest = Revision{std::stoull(head.text(0, 0))};
    }
  } catch (...) {
    table_.mutex.lock();
    lose_connection();
    return;
  }
  table_.mutex.lock();
  reconnect_.reset();
  if (!newest) return;
  known_from_ = newest;
  put_probe_off();
  if (std::exchange(was_lost_, false)) {
    tell_all();
    return;
  }
  table_.due_if([this](const WatchFor& what)
                    TENURE_REQUIRES(table_.mutex) { return changed_since(what); });
}

void Watches::hear() {
  if (!connection_ || !known_from_) return;
  table_.mutex.unlock();
  const bool well = connection_->consume();
  std::vector<Change> changes;
  while (const auto told = connection_->notification()) {
    changes.push_back(change_in<Change>(told->payload));
  }
  table_.mutex.lock();
  if (!changes.empty()) put_probe_off();
  for (Change& change : changes) {
    changed(change);
    recent_.push_back(std::move(change));
    if (recent_.size() > max_recent) {
      known_from_ = std::max(*known_from_, recent_.front().revision);
      recent_.pop_front();
    }
  }
  if (!well) lose_connection();
}

void Watches::put_probe_off() {
  if (const auto silence = executor_->target().silence) {
    probe_at_ = boot_ns() + std::chrono::nanoseconds{*silence}.count();
  }
}

void Watches::probe() {
  if (!known_from_ || probe_at_ == 0 || boot_ns() < probe_at_) return;
  table_.mutex.unlock();
  bool well = true;
  try {
    connection_->execute("SELECT");
  } catch (...) {
    well = false;
  }
  table_.mutex.lock();
  put_probe_off();
  if (well) {
    hear();  // Notifications that came with the answer do not make the socket readable again.
  } else {
    lose_connection();
  }
}

void Watches::read_slowly() {
  if (!wanted() || boot_ns() < read_at_) return;
  read_at_ = boot_ns() + second_ns;
  table_.mutex.unlock();
  Revision newest;
  try {
    newest = executor_->apply({}).revision;
  } catch (...) {
    table_.mutex.lock();
    return;
  }
  table_.mutex.lock();
  changed({.revision = newest, .keys = {}, .anything = true});
}

// --- sessions

// Only once this process is listening: if a session ends after the look-up, it is then notified.
void Watches::look_at_sessions() {
  std::erase_if(look_at_, [this](const auto& one)
                              TENURE_REQUIRES(table_.mutex) { return !table_.watches(one.first); });
  if (!(known_from_ || executor_->pooled())) return;
  const std::int64_t now = boot_ns();
  for (const std::string& session : table_.sessions()) {
    std::int64_t& look_at = look_at_[session];
    if (look_at > now) continue;
    look_at = now + second_ns;  // If the look-up fails.
    table_.mutex.unlock();
    std::optional<std::chrono::nanoseconds> left;
    try {
      left = sessions_->left(session);
    } catch (...) {  // NOLINT(bugprone-empty-catch)
    }
    table_.mutex.lock();
    if (!left) continue;
    if (left->count() <= 0) {
      table_.died(session);
    } else if (const auto at = look_at_.find(session); at != look_at_.end()) {
      at->second = boot_ns() + left->count() + second_ns / 20;
    }
  }
}

void Watches::sleep() {
  std::int64_t until = boot_ns() + (60 * second_ns);
  const bool heard = known_from_.has_value();
  if (heard) until = std::min(until, idle_since_ + idle_ns);
  if (heard && probe_at_ != 0) until = std::min(until, probe_at_);
  if (!heard && wanted()) until = std::min(until, executor_->pooled() ? read_at_ : retry_at_);
  if (heard || executor_->pooled()) {
    for (const auto& [session, look_at] : look_at_) until = std::min(until, look_at);
  }
  std::int64_t nap = until - boot_ns();
  const std::optional<Instant> first = table_.next_time();
  const int socket = heard && connection_ ? connection_->socket() : -1;
  table_.mutex.unlock();
  if (first) {
    try {
      nap = std::min(nap, detail::saturating_sub(*first, executor_->estimate()).count());
    } catch (...) {
      nap = std::min(nap, second_ns);
    }
    nap = std::min(nap, second_ns);  // poll() does not count time while the machine sleeps.
  }
  std::array<pollfd, 2> two{{{.fd = bell_, .events = POLLIN, .revents = 0},
                             {.fd = socket, .events = POLLIN, .revents = 0}}};
  nap = std::max<std::int64_t>(nap, 0);
  const timespec limit{.tv_sec = nap / second_ns, .tv_nsec = nap % second_ns};
  ::ppoll(two.data(), two.size(), &limit, nullptr);
  std::uint64_t rung = 0;
  std::ignore = ::read(bell_, &rung, sizeof rung);
  table_.mutex.lock();
}

}  // namespace tenure::postgres
