#include "store/etcd/etcd_store.hpp"

#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "base/fork.hpp"
#include "base/mutex.hpp"
#include "store/etcd/keeper.hpp"
#include "store/etcd/plan.hpp"
#include "store/etcd/poster.hpp"
#include "store/etcd/watches.hpp"
#include "store/session_entry.hpp"
#include "store/threads.hpp"

namespace tenure::etcd {

class EtcdStore::HeldSession final : public Session {
 public:
  HeldSession(std::shared_ptr<EtcdStore> store, std::shared_ptr<Lease> lease)
      : store_(std::move(store)),
        lease_(std::move(lease)),
        id_(stores::session_id(static_cast<std::uint64_t>(lease_->id))) {}
  HeldSession(const HeldSession&) = delete;
  HeldSession& operator=(const HeldSession&) = delete;

  // Entry and mark go in one step; where that fails, the mark goes with the lease.
  ~HeldSession() override {
    if (store_->forked()) return;
    try {
      const Mark mark{.id = id_, .lease = 0};
      Txn txn;
      txn.writes.push_back(Write::remove(key()));
      store_->parts_->poster->wait();
      std::ignore = store_->parts_->engine->apply(txn, &mark);
    } catch (const Error&) {  // NOLINT(bugprone-empty-catch)
    }
    store_->parts_->keeper->end(lease_);
  }

  [[nodiscard]] const std::string& id() const noexcept override { return id_; }
  // Ids are never used again, so being there is being unchanged.
  [[nodiscard]] Guard guard() const override { return Guard::present(key()); }
  // A look at the clock first: who was stopped for long must not believe an old answer.
  [[nodiscard]] std::stop_token lost() const override {
    if (!store_->forked()) std::ignore = lease_->check();
    return lease_->lost.get_token();
  }
  [[nodiscard]] std::string key() const { return std::string{session_prefix} + id_; }

 private:
  const std::shared_ptr<EtcdStore> store_;
  const std::shared_ptr<Lease> lease_;
  const std::string id_;
};

EtcdStore::EtcdStore(std::shared_ptr<Engine> engine)
    : parts_(std::make_unique<Parts>()), generation_(base::fork_generation()) {
  parts_->poster = std::make_shared<Poster>(engine);
  parts_->watches = std::make_shared<Watches>(engine);
  parts_->keeper = std::make_shared<Keeper>(engine);
  parts_->engine = std::move(engine);
}

EtcdStore::~EtcdStore() {
  if (forked()) {
    std::ignore = parts_.release();  // The parent's threads and connections: not ours to end.
    return;
  }
  parts_->watches->stop();
  parts_->poster->stop();
  parts_->keeper->stop();
}

bool EtcdStore::forked() const noexcept { return generation_ != base::fork_generation(); }

void EtcdStore::check_forked() const {
  if (forked()) throw_forked();
}

Outcome EtcdStore::apply(const Txn& txn) {
  check_forked();
  parts_->poster->wait();
  return parts_->engine->apply(txn);
}

void EtcdStore::post(Txn txn, Posted done) noexcept {
  // A copy: where queueing fails, `done` is still to be called.
  const Posted failed = done;
  try {
    check_forked();
    parts_->poster->post(std::move(txn), std::move(done));
  } catch (...) {
    if (failed) failed({}, std::current_exception());
  }
}

std::unique_ptr<Watch> EtcdStore::watch(WatchFor what, Notice notice) {
  check_forked();
  return parts_->watches->add(std::move(what), std::move(notice), shared_from_this());
}

std::unique_ptr<Session> EtcdStore::open_session(const SessionOptions& options) {
  check_forked();
  auto lease = parts_->keeper->open(options.ttl);
  auto session = std::make_unique<HeldSession>(shared_from_this(), lease);
  const Mark mark{.id = session->id(), .lease = lease->id};
  Txn txn;
  txn.writes.push_back(Write::put(session->key(), stores::session_entry(options.label, now())));
  parts_->poster->wait();
  std::ignore = parts_->engine->apply(txn, &mark);
  return session;
}

bool EtcdStore::alive(std::string_view session) {
  check_forked();
  return parts_->watches->alive(session);
}

Instant EtcdStore::now() {
  check_forked();
  return parts_->engine->clock().now();
}

}  // namespace tenure::etcd
