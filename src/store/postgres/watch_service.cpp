// The service thread of Watches: listens, looks up sessions, and calls notices.
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <random>
#include <thread>
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
// After so long without a watch, this process stops listening, and writers need not look for its
// interests.
constexpr std::int64_t idle_ns = 5 * second_ns;

// For calls that may have to wait until other transactions have committed.
constexpr int patience_factor = 3;
constexpr std::int64_t last_channel = 4'095;
constexpr std::string_view no_routine = "42883";
constexpr std::string_view no_right = "42501";

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

std::string watching_lock(const Executor& executor) {
  return std::to_string(advisory_class) + "," +
         std::to_string(static_cast<std::int32_t>(executor.schema_number())) + ')';
}

}  // namespace

void Watches::serve() {
  Lock lock{table_.mutex};
  server_ = std::this_thread::get_id();
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

void Watches::start_listening() {
  table_.mutex.unlock();
  bool well = true;
  try {
    if (!connection_) connection_ = executor_->connect(0ms);
    if (connection_->pooled()) {
      connection_.reset();
    } else {
      connection_->execute("SELECT pg_advisory_lock_shared(" + watching_lock(*executor_));
    }
  } catch (...) {
    well = false;
  }
  table_.mutex.lock();
  if (!well) {
    lose_connection();
    return;
  }
  reconnect_.reset();
  if (!connection_) return;
  listening_ = true;
  fresh_ = table_.armed();
  put_probe_off();
  if (std::exchange(was_lost_, false)) tell_all();
}

void Watches::stop_listening() {
  const std::vector<std::int64_t> dropped = interests_.drop_all();
  listening_ = false;
  fresh_.clear();
  recent_.clear();
  forgotten_ = {};
  table_.mutex.unlock();
  try {
    if (!dropped.empty()) connection_->call(watch_, watch_params({}, dropped), patience());
    connection_->execute("SELECT pg_advisory_unlock_shared(" + watching_lock(*executor_));
  } catch (...) {
    connection_.reset();
  }
  channels_.clear();
  table_.mutex.lock();
}

void Watches::lose_connection() {
  connection_.reset();
  executor_->doubt();
  was_lost_ = was_lost_ || listening_;
  listening_ = false;
  fresh_.clear();
  interests_.lose();
  channels_.clear();
  recent_.clear();
  forgotten_ = {};
  std::random_device random;
  retry_at_ = boot_ns() + reconnect_.next(random).count();
  judged_.notify_all();
}

void Watches::listen() {
  const std::int64_t now = boot_ns();
  if (wanted()) idle_since_ = now;
  if (is_polling() && connection_ == nullptr) {
    read_slowly();
    return;
  }
  if (!listening_ && wanted() && now >= retry_at_) start_listening();
  if (!listening_) return;
  if (now - idle_since_ < idle_ns) {
    update_interests();
  } else {
    stop_listening();
  }
}

Patience Watches::patience() const {
  Patience patience{.limit = executor_->target().silence};
  if (patience.limit) *patience.limit *= patience_factor;
  return patience;
}

Params Watches::watch_params(const std::vector<std::string>& missing,
                             const std::vector<std::int64_t>& dropped) {
  std::vector<std::optional<std::int64_t>> codes;
  Params::Bytes parts;
  for (const std::string& name : missing) {
    codes.emplace_back(name.front());
    parts.emplace_back(std::string_view{name}.substr(1));
  }
  std::vector<std::optional<std::int64_t>> unheard;
  for (const std::int64_t id : dropped) {
    const auto at = channels_.find(id & last_channel);
    if (--at->second > 0) continue;
    unheard.emplace_back(at->first);
    channels_.erase(at);
  }
  Params params;
  params.add(codes);
  params.add(parts);
  params.add(std::vector<std::optional<std::int64_t>>{dropped.begin(), dropped.end()});
  params.add(unheard);
  return params;
}

// The entries are read in a transaction of their own, when LISTEN has taken effect and the locks
// are held: notices.hpp.
void Watches::update_interests() {
  const std::vector<std::string> missing = interests_.missing();
  const std::vector<std::int64_t> dropped = interests_.drop(boot_ns(), !missing.empty());
  if (missing.empty() && dropped.empty()) {
    judge_fresh();
    return;
  }
  table_.mutex.unlock();
  std::optional<Result> taken;
  std::optional<Result> state;
  try {
    taken.emplace(connection_->call(watch_, watch_params(missing, dropped), patience()));
    Params::Bytes keys{std::string_view{}};
    for (const std::string& name : missing) keys.emplace_back(std::string_view{name}.substr(1));
    Params params;
    params.add(keys);
    if (!missing.empty()) state.emplace(connection_->call(state_, params, patience()));
  } catch (const Failed& failed) {
    no_watch_ = failed.state() == no_routine || failed.state() == no_right;
  } catch (...) {  // NOLINT(bugprone-empty-catch)
  }
  table_.mutex.lock();
  if (!taken || (!state && !missing.empty())) {
    lose_connection();
    return;
  }
  const auto ids = elements_in(taken->bytes(0, 0));
  for (std::size_t i = 0; i < missing.size(); ++i) {
    const std::int64_t id = number_in(ids.at(i));
    const int row = static_cast<int>(i) + 1;
    // NOLINTBEGIN(bugprone-unchecked-optional-access): read where anything was missing.
    const bool exists = missing[i].front() == key_code && !state->null(row, 1);
    const auto since = static_cast<std::uint64_t>(state->number(row, exists ? 1 : 0));
    // NOLINTEND(bugprone-unchecked-optional-access)
    ++channels_[id & last_channel];
    interests_.hold(missing[i], id, Revision{since}, exists);
  }
  judge_fresh();
}

void Watches::judge_fresh() {
  std::erase_if(fresh_, [this](stores::WatchTable::Id id) TENURE_REQUIRES(table_.mutex) {
    const WatchFor* const what = table_.armed(id);
    if (what == nullptr) return true;
    const std::optional<bool> due = is_due(*what);
    if (due && *due) table_.due(id);
    return due.has_value();
  });
  judged_.notify_all();
}

void Watches::hear() {
  if (!connection_ || !listening_) return;
  table_.mutex.unlock();
  const bool well = connection_->consume();
  std::vector<Change> changes;
  while (const auto told = connection_->notification()) {
    changes.push_back(change_in<Change>(told->payload));
  }
  table_.mutex.lock();
  if (!changes.empty()) put_probe_off();
  heard_ += changes.size();
  for (Change& change : changes) {
    changed(change);
    recent_.push_back(std::move(change));
    if (recent_.size() > max_recent) {
      forgotten_ = std::max(forgotten_, recent_.front().revision);
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
  if (!listening_ || probe_at_ == 0 || boot_ns() < probe_at_) return;
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

// Only once the interest in its entry is held: if a session ends after the look-up, this process is
// notified.
void Watches::look_at_sessions() {
  std::erase_if(look_at_, [this](const auto& one)
                              TENURE_REQUIRES(table_.mutex) { return !table_.watches(one.first); });
  if (!(listening_ || is_polling())) return;
  const std::int64_t now = boot_ns();
  for (const std::string& session : table_.sessions()) {
    const Range entry = Range::key(std::string{session_prefix} + session);
    if (!is_polling() && !interests_.since(entry)) continue;
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
  const bool heard = listening_;
  if (heard) until = std::min(until, idle_since_ + idle_ns);
  if (heard) until = std::min(until, interests_.drop_at().value_or(until));
  if (heard && probe_at_ != 0) until = std::min(until, probe_at_);
  if (!heard && wanted()) until = std::min(until, is_polling() ? read_at_ : retry_at_);
  if (heard || is_polling()) {
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
