#include "bench/cluster/etcd.hpp"

#include <csignal>
#include <optional>
#include <stdexcept>
#include <utility>

#include "bench/program.hpp"
#include "rpc.pb.h"
#include "store/etcd/etcd_store.hpp"
#include "tests/kit/process.hpp"

namespace tenure::bench::cluster {
namespace {

constexpr std::size_t ticket_bytes = 150;  // About what an entry of ours has.

class EtcdctlLock final : public stored::Lock {
 public:
  // NOLINTNEXTLINE(bugprone-easily-swappable-parameters)
  EtcdctlLock(std::string endpoint, std::string key)
      : endpoint_(std::move(endpoint)), key_(std::move(key)) {}
  EtcdctlLock(const EtcdctlLock&) = delete;
  EtcdctlLock& operator=(const EtcdctlLock&) = delete;
  ~EtcdctlLock() override {
    if (process_) release();  // Killing it would leave the lock until its lease expires.
  }

  // It prints the key when it holds the lock. Its output is not read any further, but stays open:
  // SIGPIPE would end it, and its lock would stay until its lease expires.
  void acquire() override {
    process_.emplace(kit::Program{.words = {"etcdctl", "--endpoints=" + endpoint_, "lock", key_},
                                  .environment = {"ETCDCTL_API=3"},
                                  .output = kit::Program::Output::pipe});
    const std::string line = process_->read_line();
    if (!line.starts_with(key_)) throw std::runtime_error("etcdctl lock failed: " + line);
  }
  void release() override {
    process_->kill(SIGINT);
    process_.reset();
  }

 private:
  std::string endpoint_;
  std::string key_;
  std::optional<kit::Process> process_;
};

}  // namespace

std::unique_ptr<kit::Etcd> start_etcd(Report& report) {
  return start_on_server_core(report, "etcd", [] {
    return kit::Etcd::available() ? std::make_unique<kit::Etcd>() : nullptr;
  });
}

Opener etcd_opener(const kit::Etcd& server) {
  return [&server](const std::string& name) {
    return open(etcd::open_etcd_alone(server.url(name)), patient);
  };
}

void BarePair::operator()() const {
  etcd::pb::TxnRequest put;
  auto* const what = put.add_success()->mutable_request_put();
  what->set_key(key_);
  what->set_value(std::string(ticket_bytes, 'x'));
  etcd::pb::TxnResponse response;
  client_.txn(put, response, true);
  etcd::pb::TxnRequest remove;
  remove.add_success()->mutable_request_delete_range()->set_key(key_);
  client_.txn(remove, response, true);
}

bool has_etcdctl() { return kit::find_program("etcdctl").has_value(); }

void compact(const kit::Etcd& server, etcd::Executor& executor) {
  const std::string revision = std::to_string(executor.read_position().by_etcd);
  server.etcdctl({"compact", revision});
}

std::unique_ptr<stored::Lock> make_etcdctl_lock(const std::string& endpoint,
                                                const std::string& key) {
  return std::make_unique<EtcdctlLock>(endpoint, key);
}

}  // namespace tenure::bench::cluster
