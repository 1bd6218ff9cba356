// etcd.hpp: an etcd server for a question; the minimal cost of a lock on it; locks of etcdctl.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "bench/cluster/questions.hpp"
#include "bench/ratio.hpp"
#include "bench/stored/locks.hpp"
#include "store/etcd/client.hpp"
#include "store/etcd/executor.hpp"
#include "tests/kit/etcd.hpp"

namespace tenure::bench::cluster {

// On the servers' core, with its files in memory: a disk would hide the cost of the store. Null,
// with a note, if etcd is not installed or there is only one core.
[[nodiscard]] std::unique_ptr<kit::Etcd> start_etcd(Report& report);

// A prefix for each name.
[[nodiscard]] Opener etcd_opener(const kit::Etcd& server);

// One put and one delete, each in its own transaction, with the same client code as ours.
class BarePair {
 public:
  BarePair(etcd::Client& client, std::string key) : client_(client), key_(std::move(key)) {}
  void operator()() const;

 private:
  etcd::Client& client_;
  std::string key_;
};

// One put and one delete as calls of their own: what etcd does at best, without Tenure's client.
[[nodiscard]] std::function<void()> make_bare_writes(const std::string& endpoint,
                                                     const std::string& key);
// The algorithm of `etcdctl lock` (concurrency.Mutex of its client): a key with a lease under a
// prefix, a watch of the key before it. Over one connection and one stream for all watches, which
// begin at the next revision: those of etcdctl begin at the present one, and etcd serves them at
// its next tick of 100 ms.
[[nodiscard]] std::unique_ptr<stored::Lock> make_etcd_mutex(const std::string& endpoint,
                                                            const std::string& prefix);

[[nodiscard]] bool has_etcdctl();
// With etcdctl. Before a compaction etcd's index keeps every removed key, and reads skip them.
void compact(const kit::Etcd& server, etcd::Executor& executor);
// etcdctl lock holds the lock as long as the command runs.
[[nodiscard]] std::unique_ptr<stored::Lock> make_etcdctl_lock(const std::string& endpoint,
                                                              const std::string& key);

}  // namespace tenure::bench::cluster
