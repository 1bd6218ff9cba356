#include "store/etcd/etcd_store.hpp"

#include <sys/random.h>

#include <algorithm>
#include <span>
#include <string>
#include <tuple>
#include <utility>

#include "store/common/lease_renewer.hpp"
#include "store/common/leased_session.hpp"
#include "store/common/post_queue.hpp"
#include "store/etcd/plan.hpp"
#include "store/etcd/watches.hpp"
#include "store/session_entry.hpp"

namespace tenure::etcd {
namespace {

using namespace std::chrono_literals;

constexpr std::chrono::seconds min_ttl = 2s;  // etcd's own default.
constexpr std::chrono::seconds max_ttl = 24h;
constexpr stores::LeaseRenewer::Timing timing{.earliest = 0.175, .latest = 0.225, .retry = 100ms};
constexpr std::chrono::nanoseconds longest_try = 2s;
constexpr std::size_t most_together = 256;

std::uint64_t random_number() {
  std::uint64_t number = 0;
  while (::getrandom(&number, sizeof number, 0) != static_cast<ssize_t>(sizeof number)) {
  }
  return number;
}

std::chrono::milliseconds renew(Executor& executor, const stores::Lease& lease) {
  const std::chrono::nanoseconds left{lease.trusted_until.load() - boot_ns()};
  // Only a part of the remaining time, so that other endpoints can be asked.
  const auto limit = std::chrono::ceil<std::chrono::milliseconds>(
      std::clamp<std::chrono::nanoseconds>(left / 3, 1ms, longest_try));
  const Client::Renewed renewed = executor.client().keep_alive(
      lease_of(lease.session).value_or(0), executor.layout().head(other_order), limit);
  try {
    if (!renewed.value.empty()) executor.clock().see(parse_head(renewed.value).time);
  } catch (const StoreError&) {  // NOLINT(bugprone-empty-catch): the next apply says so.
  }
  return renewed.ttl;
}

}  // namespace

class EtcdStore::HeldSession final : public stores::LeasedSession<EtcdStore> {
 public:
  using LeasedSession::LeasedSession;
  HeldSession(const HeldSession&) = delete;
  HeldSession& operator=(const HeldSession&) = delete;

  // Removes entry and lease key in one transaction. If that fails, etcd removes the lease key with
  // the lease.
  ~HeldSession() override {
    if (store_->forked()) return;
    try {
      const LeaseKey lease_key{.id = id(), .lease = 0};
      Txn txn;
      txn.writes.push_back(Write::remove(key()));
      store_->wait_for_posts();
      std::ignore = store_->parts_->executor->apply(txn, &lease_key);
    } catch (...) {  // NOLINT(bugprone-empty-catch)
    }
    store_->parts_->renewer->remove(lease_);
    try {
      store_->parts_->executor->client().revoke(lease_of(id()).value_or(0));
    } catch (...) {  // NOLINT(bugprone-empty-catch)
      // The lease expires by itself.
    }
  }
};

EtcdStore::EtcdStore(std::shared_ptr<Executor> executor) : parts_(std::make_unique<Parts>()) {
  set_queues(
      {.posted = stores::PostQueue::of([executor](const Txn& txn) { return executor->apply(txn); }),
       .durable = std::make_shared<stores::PostQueue>(
           most_together,
           [executor](std::span<stores::Posting> postings) { executor->apply_all(postings); })});
  parts_->watches = std::make_shared<Watches>(executor);
  parts_->renewer = std::make_shared<stores::LeaseRenewer>(
      timing, [executor](const stores::Lease& lease) { return renew(*executor, lease); });
  parts_->executor = std::move(executor);
}

EtcdStore::~EtcdStore() {
  if (forked()) {
    std::ignore = parts_.release();  // They belong to the parent: threads and connections.
    return;
  }
  parts_->watches->stop();
  stop_queues();
  parts_->renewer->stop();
}

void EtcdStore::throw_forked() const { throw_grpc_forked(); }

Outcome EtcdStore::apply(const Txn& txn) {
  check_forked();
  wait_for_posts();
  return parts_->executor->apply(txn);
}

std::unique_ptr<Watch> EtcdStore::watch(WatchFor what, Notice notice) {
  check_forked();
  return parts_->watches->add(std::move(what), std::move(notice), shared_from_this());
}

std::shared_ptr<stores::Lease> EtcdStore::grant(std::chrono::milliseconds ttl) {
  parts_->renewer->start();
  const std::uint64_t id = random_number() >> 1U | 1U;
  const auto asked = std::clamp(std::chrono::ceil<std::chrono::seconds>(ttl), min_ttl, max_ttl);
  const std::int64_t sent = boot_ns();
  const auto granted = parts_->executor->client().grant(static_cast<std::int64_t>(id), asked);
  return parts_->renewer->add(stores::session_id(id), granted, sent);
}

std::unique_ptr<Session> EtcdStore::open_session(const SessionOptions& options) {
  check_forked();
  auto session = std::make_unique<HeldSession>(shared_from_this(), grant(options.ttl));
  const LeaseKey lease_key{.id = session->id(), .lease = lease_of(session->id()).value_or(0)};
  Txn txn;
  txn.writes.push_back(Write::put(session->key(), stores::session_entry(options.label, now())));
  wait_for_posts();
  std::ignore = parts_->executor->apply(txn, &lease_key);
  return session;
}

bool EtcdStore::alive(std::string_view session) {
  check_forked();
  return parts_->watches->alive(session);
}

Instant EtcdStore::now() {
  check_forked();
  return parts_->executor->clock().now();
}

Instant EtcdStore::latest_now() noexcept { return parts_->executor->clock().now(); }

}  // namespace tenure::etcd
