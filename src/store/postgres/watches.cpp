#include "store/postgres/watches.hpp"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <thread>
#include <utility>

#include "store/postgres/notices.hpp"
#include "store/postgres/sessions.hpp"

namespace tenure::postgres {
namespace {

bool touches(const std::vector<Range>& ranges, const std::vector<std::string>& keys) {
  return std::ranges::any_of(keys, [&](const std::string& key) {
    return std::ranges::any_of(ranges, [&](const Range& range) { return range.holds(key); });
  });
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

// The interest of a range (notices.hpp): its code, and the bytes that count.
std::string interest_of(const Range& range) {
  if (stores::is_one_key(range)) return static_cast<char>(key_code) + range.from;
  const std::string prefix = common_prefix(range);
  std::size_t code = prefix_codes - 1;
  while (prefix_sizes[code] > prefix.size()) --code;
  return static_cast<char>(code) + prefix.substr(0, prefix_sizes[code]);
}

}  // namespace

// The head, and when each of these keys was last changed; the first one is not a key.
constexpr const char* state_sql =
    "SELECT h.revision, (SELECT e.changed FROM @.entry AS e WHERE e.key = k.key) "
    "FROM @.head AS h, unnest($1::bytea[]) WITH ORDINALITY AS k(key, n) ORDER BY k.n";

Watches::Watches(std::shared_ptr<Executor> executor, std::shared_ptr<Sessions> sessions)
    : executor_(std::move(executor)),
      sessions_(std::move(sessions)),
      bell_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      watch_{.name = "tenure_watch",
             .sql = executor_->target().in_schema("SELECT @.watch($1, $2, $3, $4)")},
      state_{.name = "tenure_state", .sql = executor_->target().in_schema(state_sql)},
      // The end of a session shows as the removal of its entry.
      interests_(max_interests, interest_of,
                 [](const std::string& session) {
                   return interest_of(Range::key(std::string{session_prefix} + session));
                 }),
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
  const std::optional<bool> due = is_due(what);
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
    return what == nullptr || is_due(*what).has_value();
  };
  const auto until = std::chrono::steady_clock::now() + interest_limit;
  while (!stopping_ && !is_polling() && !was_lost_ && !is_judged()) {
    if (judged_.wait_until(lock, until) == std::cv_status::timeout) return;
  }
}

// As far as this process knows.
std::optional<bool> Watches::is_due(const WatchFor& what) const {
  if (what.ranges.empty()) return false;
  for (const Range& range : what.ranges) {
    const std::optional<Revision> since = interests_.since(range);
    if (!since) return std::nullopt;
    if (what.after < *since || what.after < forgotten_) return true;
  }
  const auto first = std::ranges::upper_bound(recent_, what.after, {}, &Change::revision);
  return std::any_of(first, recent_.end(), [&](const Change& change) {
    return change.anything || touches(what.ranges, change.keys);
  });
}

void Watches::changed(const Change& change) {
  if (change.anything) {
    table_.due_if(
        [&](const WatchFor& what) { return !what.ranges.empty() && what.after < change.revision; });
    look_at_.clear();
  }
  for (const std::string& key : change.keys) {
    table_.changed(key, change.revision);
    if (key.starts_with(session_prefix)) look_at_.erase(key.substr(session_prefix.size()));
  }
}

void Watches::tell_all() {
  table_.all_due();
  look_at_.clear();
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
