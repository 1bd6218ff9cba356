// etcd_store.hpp: a store in an etcd cluster, for every machine that reaches it.
//
// An apply is one etcd transaction (executor.hpp), a session is a lease
// (store/common/lease_renewer.hpp), one watch stream per process serves all watches (watches.hpp),
// and clients share a clock (clock.hpp).
//
// All commits, including relaxed ones, are as durable as etcd makes them: on disk at a majority.
//
// A store belongs to the process that opened it. After fork(), every call of the child throws, and
// destroying inherited objects in the child has no effect. A child whose parent has opened an etcd
// store can't open one either, and gets an error at once. gRPC supports fork() in C++ programs only
// before its first use: later the child inherits its locks but none of its threads, and a call
// never returns. GRPC_ENABLE_FORK_SUPPORT does not help: its handlers do nothing while a thread is
// inside gRPC, and the thread that reads the watch stream always is.
//
// Thread safety: all calls, from any thread, at once.
#pragma once

#include <chrono>
#include <memory>
#include <string_view>
#include <vector>

#include "store/common/queued_store.hpp"
#include "store/etcd/executor.hpp"
#include "tenure/store.hpp"

namespace tenure::stores {
class LeaseRenewer;
struct Lease;
}  // namespace tenure::stores

namespace tenure::etcd {

class Watches;

class EtcdStore final : public stores::QueuedStore, public std::enable_shared_from_this<EtcdStore> {
 public:
  // Called by open_etcd().
  explicit EtcdStore(std::shared_ptr<Executor> executor);
  EtcdStore(const EtcdStore&) = delete;
  EtcdStore& operator=(const EtcdStore&) = delete;
  ~EtcdStore() override;

  Outcome apply(const Txn& txn) override;
  [[nodiscard]] std::unique_ptr<Watch> watch(WatchFor what, Notice notice) override;
  [[nodiscard]] std::unique_ptr<Session> open_session(const SessionOptions& options) override;
  [[nodiscard]] bool alive(std::string_view session) override;
  [[nodiscard]] bool remote() const noexcept override { return true; }
  [[nodiscard]] Instant now() override;
  [[nodiscard]] Instant latest_now() noexcept override;
  [[nodiscard]] std::vector<Fact> facts() override;

  // Grants a lease that is renewed from now on; its session has no entry yet.
  [[nodiscard]] std::shared_ptr<stores::Lease> grant(std::chrono::milliseconds ttl);
  [[nodiscard]] Executor& executor() noexcept { return *parts_->executor; }

 private:
  class HeldSession;
  struct Parts {
    std::shared_ptr<Executor> executor;
    std::shared_ptr<Watches> watches;
    std::shared_ptr<stores::LeaseRenewer> renewer;
  };
  void sync() override {}  // etcd syncs every commit.
  [[noreturn]] void throw_forked() const override;

  std::unique_ptr<Parts> parts_;
};

// Throws an error that says that this process is a child that can't use gRPC, and what to do.
[[noreturn]] void throw_grpc_forked();

// Throw Error for an invalid URL and in a child that can't use gRPC, StoreError if the cluster
// can't be used. Two openings of one URL by one process share one store.
[[nodiscard]] std::shared_ptr<Store> open_etcd(std::string_view url);
// Opens a store that is not shared, with a connection of its own.
[[nodiscard]] std::shared_ptr<EtcdStore> open_etcd_alone(std::string_view url);

}  // namespace tenure::etcd
