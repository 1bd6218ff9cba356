// etcd.hpp: an etcd server of a question; what a lock on it costs at least; locks of etcdctl's.
#pragma once

#include <memory>
#include <string>

#include "bench/cluster/questions.hpp"
#include "bench/ratio.hpp"
#include "bench/stored/locks.hpp"
#include "store/etcd/client.hpp"
#include "store/etcd/executor.hpp"
#include "tests/kit/etcd.hpp"

namespace tenure::bench::cluster {

// On the servers' core, its files in memory: a disk would hide what a store adds. Null, and a note:
// etcd is not installed, or there is one core only.
[[nodiscard]] std::unique_ptr<kit::Etcd> start_etcd(Report& report);

// A prefix for each name.
[[nodiscard]] Opener etcd_opener(const kit::Etcd& server);

// One put and one delete, each a transaction of its own, by the same client code as ours.
class BarePair {
 public:
  BarePair(etcd::Client& client, std::string key) : client_(client), key_(std::move(key)) {}
  void operator()() const;

 private:
  etcd::Client& client_;
  std::string key_;
};

[[nodiscard]] bool has_etcdctl();
// Until then etcd's index keeps every key that ever was, and a read passes over those that are
// gone. By etcdctl.
void compact(const kit::Etcd& server, etcd::Executor& executor);
// etcdctl lock: holds it for as long as the command runs.
[[nodiscard]] std::unique_ptr<stored::Lock> make_etcdctl_lock(const std::string& endpoint,
                                                              const std::string& key);

}  // namespace tenure::bench::cluster
