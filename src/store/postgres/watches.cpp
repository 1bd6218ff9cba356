#include "store/postgres/watches.hpp"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <thread>
#include <utility>

#include "store/postgres/buckets.hpp"
#include "store/postgres/notices.hpp"
#include "store/postgres/sessions.hpp"

namespace tenure::postgres {
namespace {

// The since of an interest in everything: it has one for each bucket.
constexpr Revision in_each_bucket = this_apply;

Range entry_of(std::string_view session) {
  return Range::key(std::string{session_prefix}.append(session));
}

// What all keys of the range begin with.
std::string common_prefix(const Range& range) {
  const auto [from, to] = std::ranges::mismatch(range.from, range.to);
  std::string prefix{range.from.begin(), from};
  // A prefix range: from "ab" to "ac".
  const bool next = from != range.from.end() && to != range.to.end() &&
                    std::next(to) == range.to.end() &&
                    static_cast<unsigned char>(*from) + 1 == static_cast<unsigned char>(*to);
  if (next) prefix += *from;
  return prefix;
}

// The interest of a range (notices.hpp): its code, its bucket, and the bytes that count.
std::string interest_of(const Range& range) {
  const std::optional<int> bucket = notice_bucket(range);
  if (!bucket) return {'\0', static_cast<char>(every_bucket)};
  const auto name = [bucket](std::size_t code) {
    return std::string{static_cast<char>(code), static_cast<char>(*bucket)};
  };
  if (stores::is_one_key(range)) return name(key_code) + range.from;
  const std::string prefix = common_prefix(range);
  std::size_t code = prefix_codes - 1;
  while (prefix_sizes[code] > prefix.size()) --code;
  return name(code) + prefix.substr(0, prefix_sizes[code]);
}

}  // namespace

// The newest revision in each of these buckets, and when each of these keys was last changed.
constexpr const char* state_sql =
    "SELECT h.newest, (SELECT e.changed FROM @.entry AS e WHERE e.key = k.key) "
    "FROM unnest($1::bytea[], $2::bigint[]) WITH ORDINALITY AS k(key, bucket, n) "
    "JOIN @.head AS h ON h.bucket = k.bucket ORDER BY k.n";

Watches::Watches(std::shared_ptr<Executor> executor, std::shared_ptr<Sessions> sessions)
    : executor_(std::move(executor)),
      sessions_(std::move(sessions)),
      bell_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      begin_{.name = "tenure_begin", .sql = "BEGIN ISOLATION LEVEL READ COMMITTED"},
      watch_{.name = "tenure_watch",
             .sql = executor_->target().in_schema("SELECT @.watch($1, $2, $3, $4, $5)")},
      commit_{.name = "tenure_commit", .sql = "COMMIT"},
      state_{.name = "tenure_state", .sql = executor_->target().in_schema(state_sql)},
      // The end of a session shows as the removal of its entry.
      interests_(max_interests, interest_of,
                 [](const std::string& session) { return interest_of(entry_of(session)); }),
      table_([this](const WatchFor& what, bool armed) TENURE_REQUIRES(table_.mutex) {
        armed ? interests_.want(what) : interests_.unwant(what, boot_ns());
      }) {
  if (bell_ < 0) throw StoreError("cannot create an eventfd: raise the limit on open files");
}

Watches::~Watches() { ::close(bell_); }

std::unique_ptr<Watch> Watches::add(WatchFor what, Store::Notice notice,
                                    std::shared_ptr<Store> keep) {
  Lock lock{table_.mutex};
  if (!stopping_) service_.start([self = shared_from_this()] { self->serve(); });
  if (!what.session.empty()) look_at_.erase(what.session);
  const bool wide = !std::ranges::all_of(what.ranges, stores::is_one_key);
  const std::optional<bool> due = is_due(what, false);
  const bool compared = std::ranges::all_of(what.ranges, [](const Range& range) {
    return notice_bucket(range).has_value() || is_below_top(range);
  });
  if (!compared) what.after = {};  // It says nothing about what is told from now on.
  const auto id = table_.add(std::move(what), std::move(notice));
  if (due == true) table_.due(id);
  if (!due && listening_) fresh_.push_back(id);
  wake();
  if (!due && wide) await_interests(lock, id);
  return stores::WatchTable::handle({shared_from_this(), &table_}, id, std::move(keep));
}

// A change that is made before the interest in a range is held makes all watches of the range due,
// because a removed key leaves no trace. A caller that writes next should not cause that. It does
// not wait for a server that can't be reached, nor on the thread that takes interests.
void Watches::await_interests(Lock& lock, stores::WatchTable::Id id) {
  if (std::this_thread::get_id() == server_) return;
  const auto is_judged = [&]() TENURE_REQUIRES(table_.mutex) {
    const WatchFor* const what = table_.armed(id);
    return what == nullptr || is_due(*what, false).has_value();
  };
  awaited_.insert(id);
  const auto until = std::chrono::steady_clock::now() + interest_limit;
  while (!stopping_ && !is_polling() && !was_lost_ && !is_judged()) {
    if (judged_.wait_until(lock, until) == std::cv_status::timeout) break;
  }
  awaited_.erase(id);
}

// As far as this process knows.
std::optional<bool> Watches::is_due(const WatchFor& what, bool late) const {
  bool due = false;
  for (const Range& range : what.ranges) {
    std::optional<Revision> since = interests_.since(range);
    if (!since) return std::nullopt;
    if (const std::optional<int> bucket = notice_bucket(range)) {
      if (*since == in_each_bucket) since = since_.at(static_cast<std::size_t>(*bucket));
      due = due || what.after < *since || has_changed(range, *bucket, what.after);
      continue;
    }
    due = due || late;
    for (int bucket = flow_bucket; is_below_top(range) && bucket < bucket_count; ++bucket) {
      due = due || what.after < since_.at(static_cast<std::size_t>(bucket)) ||
            has_changed(range, bucket, what.after);
    }
  }
  return due;
}

bool Watches::has_changed(const Range& range, int bucket, Revision after) const {
  const auto at = recent_.find(bucket);
  if (at == recent_.end()) return false;
  const auto& [changes, forgotten] = at->second;
  if (after < forgotten) return true;
  const auto first = std::ranges::upper_bound(changes, after, {}, &Change::revision);
  return std::any_of(first, changes.end(), [&](const Change& change) {
    return change.anything || std::ranges::any_of(change.keys, [&](const std::string& key) {
             return range.holds(key);
           });
  });
}

void Watches::changed(const Change& change) {
  if (change.anything) {
    table_.due_if([&](const WatchFor& what) {
      return what.after < change.revision &&
             std::ranges::any_of(
                 what.ranges,
                 [&](const Range& range) {
                   return notice_bucket(range).value_or(change.bucket) == change.bucket;
                 });
    });
    forget_lives();
  }
  for (const std::string& key : change.keys) {
    table_.changed(key, change.revision);
    if (!key.starts_with(session_prefix)) continue;
    look_at_.erase(key.substr(session_prefix.size()));
    lives_until_.erase(key.substr(session_prefix.size()));
  }
}

void Watches::tell_all() {
  table_.all_due();
  forget_lives();
}

void Watches::forget_lives() {
  look_at_.clear();
  lives_until_.clear();
}

bool Watches::lives(std::string_view session) {
  const Lock lock{table_.mutex};
  return lives_now(session);
}

bool Watches::lives_now(std::string_view session) const {
  const auto at = lives_until_.find(session);
  return listening_ && at != lives_until_.end() && boot_ns() < at->second &&
         interests_.since(entry_of(session)).has_value();
}

void Watches::wrote(const Txn& txn, Revision revision) {
  const Lock lock{table_.mutex};
  if (!table_.any_armed()) return;
  Change change;
  change.revision = revision;
  for (const Write& write : txn.writes) {
    change.keys.push_back(write.kind == Write::Kind::append ? write.key + stamp(revision)
                                                            : write.key);
  }
  changed(change);
  wake();
}

// The end of a session shows as a change of its entry, so sessions need notifications too.
bool Watches::wanted() const { return table_.any_ranges() || table_.any_sessions(); }

void Watches::wake() const noexcept {
  const std::uint64_t one = 1;
  std::ignore = ::write(bell_, &one, sizeof one);
}

std::string Watches::state() {
  const Lock lock{table_.mutex};
  if (executor_->pooled()) {
    return "polling once a second, because a pooler does not pass notifications on";
  }
  if (no_watch_) {
    return "polling once a second: the schema is an older one, or this role may not call its "
           "routine watch()";
  }
  return listening_ ? "LISTEN" : "LISTEN, as soon as there is a watch";
}

void Watches::stop() {
  {
    const Lock lock{table_.mutex};
    stopping_ = true;
    judged_.notify_all();
  }
  table_.clear();
  wake();
  service_.end();
}

}  // namespace tenure::postgres
