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

#include "store/postgres/buckets.hpp"
#include "store/postgres/notices.hpp"
#include "store/postgres/sessions.hpp"
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

int bucket_in(const std::string& interest) { return static_cast<unsigned char>(interest[1]); }

// The channel of an interest, by the number that watch() returned.
std::int64_t channel_of(std::int64_t id) {
  const std::int64_t interest = id & 0x7fffffff;
  return interest >> 27 == 0 ? wide_channel : interest & (wide_channel - 1);
}

// "REVISION BUCKET KEY KEY …", keys in hexadecimal digits, or "REVISION BUCKET *".
template <typename Change>
Change change_in(std::string_view payload) {
  Change change;
  const auto number = [&payload](auto& into) {
    const auto parsed = std::from_chars(payload.data(), payload.data() + payload.size(), into);
    payload.remove_prefix(static_cast<std::size_t>(parsed.ptr - payload.data()));
  };
  number(change.revision.value);
  if (!payload.empty()) payload.remove_prefix(1);
  number(change.bucket);
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
    if (connection_->pooled()) connection_.reset();
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
  forget_changes();
  table_.mutex.unlock();
  try {
    if (!dropped.empty()) connection_->call(watch_, watch_params({}, dropped), patience());
  } catch (...) {
    connection_.reset();
  }
  channels_.clear();
  table_.mutex.lock();
}

void Watches::forget_changes() {
  recent_.clear();
  since_.clear();
}

void Watches::lose_connection() {
  connection_.reset();
  lives_until_.clear();
  executor_->doubt();
  was_lost_ = was_lost_ || listening_;
  listening_ = false;
  fresh_.clear();
  interests_.lose();
  channels_.clear();
  forget_changes();
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
  std::vector<std::optional<std::int64_t>> buckets;
  Params::Bytes parts;
  for (const std::string& name : missing) {
    codes.emplace_back(name[0]);
    buckets.emplace_back(bucket_in(name));
    parts.emplace_back(std::string_view{name}.substr(2));
  }
  std::vector<std::optional<std::int64_t>> unheard;
  for (const std::int64_t id : dropped) {
    const auto at = channels_.find(channel_of(id));
    if (--at->second > 0) continue;
    unheard.emplace_back(at->first);
    channels_.erase(at);
  }
  Params params;
  params.add(codes);
  params.add(buckets);
  params.add(parts);
  params.add(std::vector<std::optional<std::int64_t>>{dropped.begin(), dropped.end()});
  params.add(unheard);
  return params;
}

// A row for each interest; one in everything has a row for each bucket.
Params Watches::state_params(const std::vector<std::string>& missing) {
  Params::Bytes keys;
  std::vector<std::optional<std::int64_t>> buckets;
  const auto add = [&](std::string_view key, int bucket) {
    keys.emplace_back(key);
    buckets.emplace_back(bucket);
  };
  for (const std::string& name : missing) {
    if (bucket_in(name) != every_bucket) {
      add(std::string_view{name}.substr(2), bucket_in(name));
    } else {
      for (int bucket = 0; bucket < bucket_count; ++bucket) add({}, bucket);
    }
  }
  Params params;
  params.add(keys);
  params.add(buckets);
  return params;
}

// The entries are read in a transaction of their own, when LISTEN has taken effect and the locks
// are held: notices.hpp. Both are one message.
void Watches::update_interests() {
  std::vector<std::string> missing = interests_.missing();
  std::ranges::sort(missing, {}, bucket_in);
  const std::vector<std::int64_t> dropped = interests_.drop(boot_ns(), !missing.empty());
  if (missing.empty() && dropped.empty()) {
    judge_fresh();
    return;
  }
  table_.mutex.unlock();
  std::vector<Result> results;
  try {
    const Params none;
    const Params watch = watch_params(missing, dropped);
    const Params state = state_params(missing);
    const std::array<Step, 4> steps{{{.statement = &begin_, .params = &none},
                                     {.statement = &watch_, .params = &watch},
                                     {.statement = &commit_, .params = &none},
                                     {.statement = &state_, .params = &state}}};
    results = connection_->run(steps, patience());
  } catch (const Failed& failed) {
    no_watch_ = failed.state() == no_routine || failed.state() == no_right;
  } catch (...) {  // NOLINT(bugprone-empty-catch)
  }
  table_.mutex.lock();
  if (results.empty()) {
    lose_connection();
    return;
  }
  hold(missing, results);
  judge_fresh();
}

void Watches::hold(const std::vector<std::string>& names, const std::vector<Result>& results) {
  const auto ids = elements_in(results.at(1).bytes(0, 0));
  const Result& state = results.at(3);
  const auto revision = [&state](int row, int column) {
    return Revision{static_cast<std::uint64_t>(state.number(row, column))};
  };
  int row = 0;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const std::int64_t id = number_in(ids.at(i));
    ++channels_[channel_of(id)];
    if (bucket_in(names[i]) == every_bucket) {
      since_.clear();
      while (since_.size() < bucket_count) since_.push_back(revision(row++, 0));
      interests_.hold(names[i], id, this_apply, false);
      continue;
    }
    const bool exists = names[i].front() == key_code && !state.null(row, 1);
    const bool brief = exists && !names[i].substr(2).starts_with(session_prefix);
    interests_.hold(names[i], id, revision(row, exists ? 1 : 0), brief);
    ++row;
  }
}

void Watches::judge_fresh() {
  std::erase_if(fresh_, [this](stores::WatchTable::Id id) TENURE_REQUIRES(table_.mutex) {
    const WatchFor* const what = table_.armed(id);
    if (what == nullptr) return true;
    const std::optional<bool> due = is_due(*what, !awaited_.contains(id));
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
    Recent& recent = recent_[change.bucket];
    recent.changes.push_back(std::move(change));
    if (recent.changes.size() > max_recent) {
      recent.forgotten = recent.changes.front().revision;
      recent.changes.pop_front();
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
  std::vector<Revision> newest;
  try {
    newest = executor_->heads();
  } catch (...) {
    table_.mutex.lock();
    return;
  }
  table_.mutex.lock();
  const bool moved = newest != polled_;
  table_.due_if([&](const WatchFor& what) {
    return std::ranges::any_of(what.ranges, [&](const Range& range) {
      const std::optional<int> bucket = notice_bucket(range);
      if (bucket) return what.after < newest[static_cast<std::size_t>(*bucket)];
      return moved || (is_below_top(range) && what.after < std::ranges::max(newest));
    });
  });
  polled_ = std::move(newest);
  forget_lives();
}

// --- sessions

// Only once the interest in its entry is held: if a session ends after the look-up, this process is
// notified.
void Watches::look_at_sessions() {
  std::erase_if(look_at_, [this](const auto& one)
                              TENURE_REQUIRES(table_.mutex) { return !table_.watches(one.first); });
  std::erase_if(lives_until_, [this](const auto& one)
                                  TENURE_REQUIRES(table_.mutex) { return !lives_now(one.first); });
  if (!(listening_ || is_polling())) return;
  const std::int64_t now = boot_ns();
  for (const std::string& session : table_.sessions()) {
    const Range entry = Range::key(std::string{session_prefix} + session);
    if (!is_polling() && !interests_.since(entry)) continue;
    std::int64_t& look_at = look_at_[session];
    if (look_at > now) continue;
    if (const auto at = lives_until_.find(session); at != lives_until_.end()) {
      look_at = at->second + second_ns / 20;
      continue;
    }
    look_at = now + second_ns;  // If the look-up fails.
    ask_about(session);
  }
}

void Watches::ask_about(const std::string& session) {
  table_.mutex.unlock();
  const std::int64_t sent = boot_ns();
  std::optional<std::chrono::nanoseconds> left;
  try {
    left = sessions_->left(session);
  } catch (...) {  // NOLINT(bugprone-empty-catch)
  }
  table_.mutex.lock();
  if (!left) return;
  if (left->count() <= 0) {
    table_.died(session);
  } else if (const auto at = look_at_.find(session); at != look_at_.end()) {
    at->second = boot_ns() + left->count() + second_ns / 20;
    lives_until_[session] = sent + left->count();
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
