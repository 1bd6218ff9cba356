#include "store/sqlite/watches.hpp"

#include <algorithm>
#include <optional>
#include <utility>

namespace tenure::sqlite {
namespace {

// A range over more first bytes than this uses the bucket of all keys.
constexpr std::size_t most_first_bytes = 8;

std::vector<std::uint32_t> buckets_of(const std::vector<Range>& ranges) {
  std::vector<std::uint32_t> found;
  const auto add = [&found](std::size_t bucket) {
    found.push_back(static_cast<std::uint32_t>(bucket));
  };
  for (const Range& range : ranges) {
    const std::size_t first = first_byte_bucket(range.from);
    // If the end is a single byte, no key of the range begins with that byte.
    const std::size_t last = range.to.empty()
                                 ? every_key - 1
                                 : first_byte_bucket(range.to) - (range.to.size() == 1 ? 1 : 0);
    if (stores::is_one_key(range)) {
      add(key_bucket(range.from));
    } else if (!range.to.empty() && range.to <= range.from) {
      continue;  // The range is empty.
    } else if (last - first >= most_first_bytes) {
      add(every_key);
    } else {
      for (std::size_t bucket = first; bucket <= last; ++bucket) add(bucket);
    }
  }
  std::ranges::sort(found);
  const auto again = std::ranges::unique(found);
  found.erase(again.begin(), again.end());
  return found;
}

}  // namespace

Watches::Watches(std::shared_ptr<Executor> executor, const SqliteOptions& options)
    : executor_(std::move(executor)),
      check_every_(options.check_every),
      on_arming_(options.on_arming),
      table_([this](const WatchFor& what, bool armed)
                 TENURE_REQUIRES(table_.mutex) { count_buckets(what, armed); }),
      deaths_(executor_->side().probe(),
              [this](const std::string& session) { session_ended(session); }) {}

std::unique_ptr<Watch> Watches::add(const WatchFor& what, Store::Notice notice,
                                    std::shared_ptr<Store> keep) {
  const Lock lock{table_.mutex};
  start();
  read_log();  // For the earlier watches; the new one is checked below.
  if (on_arming_) on_arming_();
  const auto id = table_.add(what, std::move(notice));
  // After its bits are set: otherwise a commit in between would not ring. In a bucket, a commit
  // that is under way may hide an earlier one that is decided; the log has both.
  const bool written = written_in_buckets(what, 0, this_apply.value);
  const bool now =
      lost_ || (written && in_log(what)) || (what.until && *what.until <= executor_->now());
  bool must_wake = idle_checks_ > max_idle_checks || (what.until && *what.until < planned_);
  idle_checks_ = 0;
  if (now) {
    table_.due(id);
  } else if (!what.session.empty()) {
    await_death(what.session);
  }
  must_wake = must_wake || table_.any_ready();
  if (must_wake) wake();
  return stores::WatchTable::handle({shared_from_this(), &table_}, id, std::move(keep));
}

void Watches::observe(std::weak_ptr<std::stop_source> lost) {
  const Lock lock{table_.mutex};
  std::erase_if(observed_, [](const auto& one) { return one.expired(); });
  observed_.push_back(std::move(lost));
  start();
  if (lost_) declare_lost();
  if (std::exchange(idle_checks_, 0) > max_idle_checks) wake();
}

void Watches::count_buckets(const WatchFor& what, bool armed) {
  for (const std::uint32_t bucket : buckets_of(what.ranges)) {
    auto& group = watched_[bucket % 64];
    if (armed) {
      ++group[bucket];
      arm_bucket(bucket);
    } else if (--group.at(bucket) == 0) {
      group.erase(bucket);
    }
  }
}

void Watches::arm_bucket(std::size_t bucket) const noexcept {
  executor_->side().bucket(bucket).bits.fetch_or(std::uint64_t{1} << slot_ % 64);
}

bool Watches::written_in_buckets(const WatchFor& what, std::uint64_t after,
                                 std::uint64_t last) const {
  return std::ranges::any_of(buckets_of(what.ranges), [&](std::uint32_t bucket) {
    const std::uint64_t revision = executor_->side().bucket(bucket).revision.load();
    return revision > std::max(after, what.after.value) && revision <= last;
  });
}

// Whether a key of a range was written after `after`, as far as the log goes back; true if it does
// not go back that far. Undecided revisions ring later.
bool Watches::in_log(const WatchFor& what) const {
  const SideFile& side = executor_->side();
  const std::uint64_t decided = side.header().decided.load();
  const std::uint64_t after = what.after.value;
  std::uint64_t next = decided + 1;  // Revisions from here on are accounted for.
  WriteLog::Entry entry;
  for (std::uint64_t index = side.log().count(); index > 0;) {
    if (!side.log().read(--index, entry)) return true;
    if (entry.revision > decided) continue;
    if (entry.revision <= after) return next > after + 1;
    if (entry.revision + 1 < next || !entry.whole) return true;
    next = entry.revision;
    const auto holds = [&](const Range& range) { return range.holds(entry.key); };
    if (std::ranges::any_of(what.ranges, holds)) return true;
  }
  return true;
}

void Watches::await_death(const std::string& session) {
  const auto byte = session_byte(session);
  const std::shared_ptr<Descriptor>& probe = executor_->side().probe();
  if (!byte || !write_locked(probe->get(), *byte)) {
    table_.died(session);
    return;
  }
  deaths_.await(session, *byte);  // After an error the check once per second still finds the death.
}

void Watches::session_ended(const std::string& session) {
  {
    const Lock lock{table_.mutex};
    if (stopping_ || !table_.watches(session)) return;
    table_.died(session);
  }
  wake();
}

void Watches::stop() {
  {
    const Lock lock{table_.mutex};
    stopping_ = true;
  }
  deaths_.stop();
  table_.clear();
  if (service_.started()) wake();
  service_.end();
}

}  // namespace tenure::sqlite
