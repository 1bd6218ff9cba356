#include "store/postgres/watches.hpp"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "store/postgres/sessions.hpp"

namespace tenure::postgres {
namespace {

bool touches(const std::vector<Range>& ranges, const std::vector<std::string>& keys) {
  return std::ranges::any_of(keys, [&](const std::string& key) {
    return std::ranges::any_of(ranges, [&](const Range& range) { return range.holds(key); });
  });
}

}  // namespace

Watches::Watches(std::shared_ptr<Executor> executor, std::shared_ptr<Sessions> sessions)
    : executor_(std::move(executor)),
      sessions_(std::move(sessions)),
      bell_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (bell_ < 0) throw StoreError("cannot create an eventfd: raise the limit on open files");
}

Watches::~Watches() { ::close(bell_); }

std::unique_ptr<Watch> Watches::add(WatchFor what, Store::Notice notice,
                                    std::shared_ptr<Store> keep) {
  const Lock lock{table_.mutex};
  if (!stopping_) service_.start([self = shared_from_this()] { self->serve(); });
  const bool is_due = known_from_ && changed_since(what);
  if (!what.session.empty()) look_at_.erase(what.session);
  const auto id = table_.add(std::move(what), std::move(notice));
  if (is_due) table_.due(id);
  wake();
  return stores::WatchTable::handle({shared_from_this(), &table_}, id, std::move(keep));
}

// As far as this process knows.
bool Watches::changed_since(const WatchFor& what) const {
  if (what.ranges.empty()) return false;
  if (!known_from_ || what.after < *known_from_) return true;
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
  if (executor_->pooled())
    return "polling once a second, because a pooler does not pass notifications on";
  return known_from_ ? "LISTEN" : "LISTEN, as soon as there is a watch";
}

void Watches::stop() {
  {
    const Lock lock{table_.mutex};
    stopping_ = true;
  }
  table_.clear();
  wake();
  service_.end();
}

}  // namespace tenure::postgres
