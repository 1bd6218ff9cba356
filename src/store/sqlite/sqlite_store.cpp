#include "store/sqlite/sqlite_store.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <mutex>
#include <stop_token>
#include <utility>

#include "store/common/queued_store.hpp"
#include "store/session_entry.hpp"
#include "store/sqlite/checks.hpp"
#include "store/sqlite/executor.hpp"
#include "store/sqlite/group_commit.hpp"
#include "store/sqlite/views.hpp"
#include "store/sqlite/watches.hpp"

namespace tenure::sqlite {

// Holds a write lock on a byte of its own through a description of its own, so that this session
// alone can be passed to a child process.
class SqliteStore::HeldSession final : public Session {
 public:
  HeldSession(std::shared_ptr<SqliteStore> store, std::unique_ptr<Descriptor> file, std::string id)
      : store_(std::move(store)), file_(std::move(file)), id_(std::move(id)) {}
  HeldSession(const HeldSession&) = delete;
  HeldSession& operator=(const HeldSession&) = delete;

  // Removes the entry first. If that fails, other processes see that the lock is gone.
  ~HeldSession() override {
    if (store_->forked()) return;
    try {
      store_->apply({.guards = {}, .writes = {Write::remove(key())}, .reads = {}});
    } catch (...) {  // NOLINT(bugprone-empty-catch)
    }
  }

  [[nodiscard]] const std::string& id() const noexcept override { return id_; }
  // Ids are never reused, so an entry that exists is unchanged.
  [[nodiscard]] Guard guard() const override { return Guard::present(key()); }
  [[nodiscard]] int descriptor() const noexcept override { return file_->get(); }
  [[nodiscard]] std::stop_token lost() const override {
    // The store checks its files only if somebody asked for lost().
    std::call_once(observed_, [this] {
      if (!store_->forked()) store_->parts_->watches->observe(lost_);
    });
    return lost_->get_token();
  }
  [[nodiscard]] std::string key() const { return std::string{session_prefix} + id_; }

 private:
  const std::shared_ptr<SqliteStore> store_;
  const std::unique_ptr<Descriptor> file_;
  const std::string id_;
  const std::shared_ptr<std::stop_source> lost_ = std::make_shared<std::stop_source>();
  mutable std::once_flag observed_;
};

// A transaction whose callback is a function.
class SqliteStore::Called final : public Deferred {
 public:
  Called(Txn what, Posted done) : done_(std::move(done)) { txn = std::move(what); }
  void done(std::shared_ptr<Deferred> /*self*/) noexcept override {
    if (done_) done_(outcome, error);
  }

 private:
  Posted done_;
};

SqliteStore::SqliteStore(std::shared_ptr<Executor> executor, const SqliteOptions& options)
    : parts_(std::make_unique<Parts>()), generation_(base::fork_generation()) {
  parts_->commits = std::make_shared<GroupCommit>(executor);
  parts_->watches = std::make_shared<Watches>(executor, options);
  parts_->executor = std::move(executor);
}

SqliteStore::~SqliteStore() {
  if (forked()) {
    std::ignore = parts_.release();  // They belong to the parent: threads, locks and connections.
    return;
  }
  parts_->watches->stop();
  parts_->commits->stop();
}

bool SqliteStore::forked() const noexcept { return base::forked_since(generation_); }

void SqliteStore::check_forked() const {
  if (forked())
    throw Error("this store was opened before fork(): open it again in the child process");
}

Outcome SqliteStore::apply(const Txn& txn) {
  check_forked();
  if (txn.writes.empty() && !parts_->commits->posts_pending()) return parts_->executor->read(txn);
  return parts_->commits->apply(txn);
}

void SqliteStore::post(Txn txn, Posted done) noexcept {
  stores::queue_or_fail(std::move(done), [&](Posted own) {
    check_forked();
    parts_->commits->post(std::move(txn), std::move(own));
  });
}

void SqliteStore::apply_then(Txn txn, Posted done) noexcept {
  apply_later(std::make_shared<Called>(std::move(txn), std::move(done)));
}

void SqliteStore::apply_later(std::shared_ptr<Deferred> what) noexcept {
  try {
    check_forked();
    parts_->commits->apply_later(what);
  } catch (...) {
    what->error = std::current_exception();
    Deferred& one = *what;
    one.done(std::move(what));
  }
}

void SqliteStore::flush() {
  check_forked();
  parts_->commits->wait_for_all();
  parts_->executor->sync();
}

std::unique_ptr<Watch> SqliteStore::watch(WatchFor what, Notice notice) {
  check_forked();
  return parts_->watches->add(what, std::move(notice), shared_from_this());
}

std::unique_ptr<Session> SqliteStore::open_session(const SessionOptions& options) {
  check_forked();
  const Executor& executor = *parts_->executor;
  const std::string path = executor.side().path().string();
  auto file = std::make_unique<Descriptor>(path.c_str(), O_RDWR | O_NOFOLLOW);
  const std::uint64_t number =
      static_cast<std::uint64_t>(first_session_byte) | random_number() >> 2U;
  if (file->get() < 0 || lock_byte(file->get(), LockType::write,
                                   Byte{static_cast<std::int64_t>(number)}, false) != 0) {
    throw StoreError("cannot open and lock '" + path +
                     "' for a session: check that the file exists, and the limit on open files");
  }
  struct stat status{};
  ::fstat(file->get(), &status);
  if (file_id(status) != executor.side().id()) {
    throw StoreError("'" + path + "' was replaced while it was open: restart this program");
  }
  auto session = std::make_unique<HeldSession>(shared_from_this(), std::move(file),
                                               stores::session_id(number));
  apply({.guards = {},
         .writes = {Write::put(session->key(), stores::session_entry(options.label, now()))},
         .reads = {}});
  return session;
}

bool SqliteStore::alive(std::string_view session) {
  check_forked();
  const auto byte = session_byte(session);
  return byte && write_locked(parts_->executor->side().probe()->get(), *byte);
}

Instant SqliteStore::now() {
  check_forked();
  return parts_->executor->now();
}

Instant SqliteStore::latest_now() noexcept { return parts_->executor->now(); }

}  // namespace tenure::sqlite
