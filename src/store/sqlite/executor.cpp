#include "store/sqlite/executor.hpp"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <climits>
#include <cstring>
#include <ctime>
#include <utility>

namespace tenure::sqlite {
namespace {

constexpr std::size_t most_idle_readers = 8;
constexpr std::int64_t check_every_ns = 1'000'000'000;

bool only_reads(const Txn& txn) { return txn.writes.empty(); }

// Guards, then reads. The caller has begun a transaction if it needs one. `left_out`: a guard that
// is judged otherwise.
bool judge(Connection& connection, const Txn& txn, const Guard* left_out = nullptr) {
  return std::ranges::all_of(txn.guards, [&](const Guard& guard) {
    return &guard == left_out || connection.holds(guard);
  });
}

// A put of a key that must be absent judges that guard itself: it is an insert, which fails where
// the key exists. It comes first, so that nothing is to be undone then.
struct Fresh {
  const Guard* guard = nullptr;
  const Write* put = nullptr;
};
Fresh fresh_of(const Txn& txn) {
  for (const Guard& guard : txn.guards) {
    if (guard.kind != Guard::Kind::absent) continue;
    const auto at = std::ranges::find(txn.writes, guard.range.from, &Write::key);
    if (at != txn.writes.end() && at->kind == Write::Kind::put)
      return {.guard = &guard, .put = &*at};
  }
  return {};
}

// Of the end of the key, where keys of one kind differ. Equal keys have equal ones.
std::uint64_t fingerprint(std::string_view key) noexcept {
  std::array<std::uint64_t, 2> last{};
  const std::size_t size = std::min(key.size(), sizeof last);
  std::memcpy(last.data(), key.data() + key.size() - size, size);
  return (last[0] * 0x9E3779B97F4A7C15U) ^ last[1] ^ key.size();
}

// A key that was to be inserted with others exists.
struct KeyExists {};

void take_reads(Connection& connection, const Txn& txn, Revision self, Outcome& outcome) {
  outcome.reads.reserve(txn.reads.size());
  for (const Range& range : txn.reads) {
    // An apply that wrote nothing has no revision; every entry is older than it.
    const Revision before = range.before == this_apply ? self : range.before;
    outcome.reads.push_back(connection.read(range, before));
  }
}

// Rolls back if the scope ends early.
class Transaction {
 public:
  explicit Transaction(Connection& connection) : connection_(connection) {}
  ~Transaction() { connection_.rollback(); }
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;

 private:
  Connection& connection_;
};

}  // namespace

class AtGate {
 public:
  explicit AtGate(SideFile& side) : side_(side) {}
  ~AtGate() {
    if (entered_) side_.leave_gate();
  }
  AtGate(const AtGate&) = delete;
  AtGate& operator=(const AtGate&) = delete;
  void enter() {
    if (!entered_) side_.enter_gate();
    entered_ = true;
  }

 private:
  SideFile& side_;
  bool entered_ = false;
};

void ring_doorbell(Doorbell& bell, std::uint64_t summary) noexcept {
  bell.summary.fetch_or(summary);
  bell.word.fetch_add(1);
  if (bell.sleepers.load() == 0) return;
  ::syscall(SYS_futex, &bell.word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

Executor::Executor(Opened opened, std::uint32_t max_pages)
    : location_(std::move(opened.location)),
      file_(opened.file),
      side_(std::move(opened.side)),
      max_pages_(max_pages) {
  // The connection that opened the store has no page limit.
  if (max_pages_ == 0) writer_ = std::move(opened.full);
  enlist();
}

// Closes the connections before it stops to take part in forks: locks that SQLite shares between
// the connections of a process must not be held in a child.
Executor::~Executor() {
  checkpoints_.stop();
  {
    const Traffic::Inside inside{traffic_};
    writer_.reset();
    checkpointer_.reset();
    const base::Mutex::Scoped lock{pool_mutex_};
    pool_.clear();
  }
  delist();
}

Instant Executor::now() const noexcept {
  return Instant{std::chrono::nanoseconds{boot_ns() + side_->header().base.load()}};
}

bool Executor::intact() noexcept {
  if (replaced_.load()) return false;
  if (file_id(location_.path) == file_ && file_id(side_->path()) == side_->id()) return true;
  replaced_.store(true);
  return false;
}

void Executor::check_intact_sometimes() {
  const std::int64_t now = coarse_clock_ns();
  if (now >= next_check_) {
    next_check_ = now + check_every_ns;
    std::ignore = intact();
  }
  throw_if_replaced();
}

void Executor::throw_if_replaced() const {
  if (!replaced_.load()) return;
  throw StoreError("'" + location_.path.string() + "' or '" + side_->path().string() +
                   "' was replaced or removed while it was open, so this process has lost its "
                   "locks: put the right files back and restart this program");
}

std::unique_ptr<Connection> Executor::open(Connection::Mode mode) const {
  auto connection = std::make_unique<Connection>(location_, mode);
  connection->when_busy([side = side_] { side->say_crowded(coarse_clock_ns()); });
  if (max_pages_ != 0) {
    connection->execute(("PRAGMA max_page_count=" + std::to_string(max_pages_)).c_str());
  }
  return connection;
}

// One connection for both modes: a second connection would find that everything it knows and has
// cached was changed by another.
Connection& Executor::writer(bool full) {
  const auto mode = full ? Connection::Mode::full : Connection::Mode::relaxed;
  if (!writer_) writer_ = open(mode);
  writer_->keep_more_pages();
  writer_->use(mode);
  return *writer_;
}

void Executor::write(std::span<Job*> batch) {
  const Traffic::Inside inside{traffic_};
  joins_ = batch.size() >= Connection::joined;
  for (bool again = true; again; joins_ = false) {
    again = false;
    try {
      write_together(batch);
      return;
    } catch (const KeyExists&) {
      again = true;
    } catch (...) {
      if (batch.size() == 1) {
        batch.front()->error = std::current_exception();
        return;
      }
    }
  }
  for (Job*& job : batch) {
    try {
      write_together({&job, 1});
    } catch (...) {
      job->error = std::current_exception();
    }
  }
}

void Executor::write_together(std::span<Job*> batch) {
  check_intact_sometimes();
  Connection& connection = writer(std::ranges::any_of(
      batch, [](const Job* job) { return job->txn->durability == Durability::full; }));
  Header& header = side_->header();
  AtGate gate{*side_};
  begin(connection, gate);
  // Inside the transaction, where no other writer can raise the count.
  if ((header.last.load() & count_mask) + batch.size() >= count_mask) {
    connection.rollback();
    gate.enter();
    raise_epoch(writer(true), *side_);
    connection.begin_write();
  }
  // Earlier writers have committed, rolled back or died by now.
  given_ = header.last.load();
  if (header.decided.load() != given_) header.decided.store(given_);
  try {
    const Transaction transaction{connection};
    touched_.clear();
    waiting_.clear();
    waiting_prints_.clear();
    for (Job* job : batch) perform(connection, *job);
    insert_waiting(connection);
    touch_broad();
    connection.commit();
  } catch (...) {
    touched_broad_.fill(0);
    announce_decided();
    throw;
  }
  announce_decided();
  // Still at the gate: the log restarts only if nobody writes between this checkpoint and the next
  // commit.
  if (checkpoints_.due(connection.log_pages())) std::ignore = connection.checkpoint();
}

int Executor::checkpoint_beside() noexcept {
  const Traffic::Inside inside{traffic_};
  try {
    if (!checkpointer_) checkpointer_ = open(Connection::Mode::relaxed);
    return checkpointer_->checkpoint();
  } catch (...) {
    return 0;
  }
}

void Executor::begin(Connection& connection, AtGate& gate) {
  const std::int64_t now = coarse_clock_ns();
  if (!side_->crowded(now)) {
    if (connection.try_begin_write()) return;
    side_->say_crowded(now);
  }
  gate.enter();
  // Entering the gate took a while, so other writers are there.
  if (const std::int64_t then = coarse_clock_ns(); then != now) side_->say_crowded(then);
  connection.begin_write();
}

void Executor::perform(Connection& connection, Job& job) {
  const Txn& txn = *job.txn;
  Outcome& outcome = job.outcome;
  outcome = {};
  if (!waiting_.empty() && needs_waiting(txn)) insert_waiting(connection);
  const Fresh fresh = fresh_of(txn);
  const bool may_wait = joins_ && txn.writes.size() == 1 && txn.reads.empty();
  Header& header = side_->header();
  Revision self;
  self.value = header.last.load() + 1;  // There is no other writer.
  outcome.committed = judge(connection, txn, fresh.guard) &&
                      (fresh.put == nullptr || insert_new(connection, *fresh.put, self, may_wait));
  if (outcome.committed && !only_reads(txn)) {
    given_ = header.last.fetch_add(1) + 1;
    if (fresh.put != nullptr) touch(fresh.put->key, self.value);
    for (const Write& write : txn.writes) {
      if (&write != fresh.put) change(connection, write, self);
    }
  } else {
    self = {};
  }
  outcome.revision.value = header.last.load();
  take_reads(connection, txn, self, outcome);
}

bool Executor::insert_new(Connection& connection, const Write& put, Revision revision,
                          bool may_wait) {
  if (!may_wait) return connection.try_insert(put.key, put.value, revision);
  waiting_.push_back({.key = put.key, .value = put.value, .revision = revision});
  waiting_prints_.push_back(fingerprint(put.key));
  if (waiting_.size() == Connection::joined) insert_waiting(connection);
  return true;
}

void Executor::insert_waiting(Connection& connection) {
  if (waiting_.size() == Connection::joined) {
    if (!connection.try_insert_joined(std::span{waiting_}.first<Connection::joined>())) {
      throw KeyExists{};
    }
  } else {
    for (const auto& [key, value, revision] : waiting_) {
      if (!connection.try_insert(key, value, revision)) throw KeyExists{};
    }
  }
  waiting_.clear();
  waiting_prints_.clear();
}

// Whether the transaction may concern a key that waits.
bool Executor::needs_waiting(const Txn& txn) const {
  const auto waits = [this](std::string_view key) {
    return std::ranges::find(waiting_prints_, fingerprint(key)) != waiting_prints_.end();
  };
  return !txn.reads.empty() || std::ranges::any_of(txn.guards, [&](const Guard& guard) {
    return guard.kind == Guard::Kind::quiet || waits(guard.range.from);
  }) || std::ranges::any_of(txn.writes, [&](const Write& write) {
    return write.kind != Write::Kind::append && waits(write.key);
  });
}

void Executor::change(Connection& connection, const Write& write, Revision revision) {
  switch (write.kind) {
    case Write::Kind::put: connection.put(write.key, write.value, revision); break;
    case Write::Kind::remove: connection.remove(write.key); break;
    case Write::Kind::append:
      key_.assign(write.key).append(stamp(revision));
      connection.insert(key_, write.value, revision);
      touch(key_, revision.value);
      return;
  }
  touch(write.key, revision.value);
}

void Executor::touch(std::string_view key, std::uint64_t revision) {
  side_->log().add(key, revision);
  const std::size_t bucket = key_bucket(key);
  side_->bucket(bucket).revision.store(revision);
  touched_.push_back(static_cast<std::uint32_t>(bucket));
  for (const std::size_t index : {first_byte_bucket(key), every_key}) {
    std::uint64_t& last = touched_broad_.at(index - key_buckets);
    if (last == 0) touched_.push_back(static_cast<std::uint32_t>(index));
    last = revision;
  }
}

// Before COMMIT. Each of them has many keys of a batch.
void Executor::touch_broad() noexcept {
  for (const std::uint32_t index : touched_) {
    if (index < key_buckets) continue;
    side_->bucket(index).revision.store(std::exchange(touched_broad_[index - key_buckets], 0));
  }
}

// Up to the last revision of this batch, not further: the next writer may have begun.
void Executor::announce_decided() noexcept {
  side_->raise_decided(given_);
  for (const std::uint32_t index : touched_) {
    if (side_->bucket(index).bits.load() != 0) ring(index);
  }
}

void Executor::own_doorbell(std::size_t slot, OnRing on_ring) {
  on_own_ring_ = std::move(on_ring);
  own_slot_.store(slot);
}

void Executor::ring(std::size_t bucket) noexcept {
  const std::uint64_t summary = std::uint64_t{1} << bucket % 64;
  const std::size_t own = own_slot_.load();
  std::uint64_t bits = side_->bucket(bucket).bits.exchange(0);
  for (; bits != 0; bits &= bits - 1) {
    for (auto slot = static_cast<std::size_t>(std::countr_zero(bits)); slot < doorbells;
         slot += 64) {
      if (slot == own) {
        on_own_ring_(bucket);
      } else {
        ring_doorbell(side_->doorbell(slot), summary);
      }
    }
  }
}

Outcome Executor::read(const Txn& txn) {
  const Traffic::Inside inside{traffic_};
  std::unique_ptr<Connection> connection = borrow();
  Outcome outcome;
  // Read before the snapshot is taken, so that the snapshot contains everything up to this
  // revision.
  outcome.revision.value = side_->header().decided.load();
  {
    const Transaction transaction{*connection};
    // A single statement needs no explicit transaction.
    const bool several = txn.guards.size() + txn.reads.size() > 1;
    if (several) connection->begin_read();
    outcome.committed = judge(*connection, txn);
    take_reads(*connection, txn, {}, outcome);
    if (several) connection->commit();
  }
  give_back(std::move(connection));
  return outcome;
}

void Executor::sync() {
  const Traffic::Inside inside{traffic_};
  std::unique_ptr<Connection> connection = borrow();
  connection->sync_log();
  give_back(std::move(connection));
}

std::string Executor::ask(const char* sql) {
  const Traffic::Inside inside{traffic_};
  std::unique_ptr<Connection> connection = borrow();
  std::string answer = connection->ask(sql);
  give_back(std::move(connection));
  return answer;
}

std::unique_ptr<Connection> Executor::borrow() {
  throw_if_replaced();
  {
    const base::Mutex::Scoped lock{pool_mutex_};
    if (!pool_.empty()) {
      std::unique_ptr<Connection> connection = std::move(pool_.back());
      pool_.pop_back();
      return connection;
    }
  }
  return open(Connection::Mode::relaxed);
}

void Executor::give_back(std::unique_ptr<Connection> connection) {
  const base::Mutex::Scoped lock{pool_mutex_};
  if (pool_.size() < most_idle_readers) pool_.push_back(std::move(connection));
}

void Executor::before_fork() noexcept {
  traffic_.pause();
  writer_.reset();
  checkpointer_.reset();
  const base::Mutex::Scoped lock{pool_mutex_};
  pool_.clear();
}

void Executor::after_fork_in_parent() noexcept { traffic_.resume(); }

}  // namespace tenure::sqlite
