#include "bench/cluster/etcd.hpp"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <stdexcept>
#include <utility>
#include <vector>

#include "bench/program.hpp"
#include "bench/stored/server.hpp"
#include "rpc.pb.h"
#include "store/etcd/etcd_store.hpp"

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
    if (pid_ > 0) release();
  }

  // It prints the key when it has it. Who stops reading then would end it by SIGPIPE in the middle
  // of the line, and its lock would stay until its lease ends.
  void acquire() override {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) throw std::runtime_error("no pipe");
    const std::string at = "--endpoints=" + endpoint_;
    const std::array<const char*, 5> words = {"etcdctl", at.c_str(), "lock", key_.c_str(), nullptr};
    const std::array<const char*, 2> environment = {"ETCDCTL_API=3", nullptr};
    posix_spawn_file_actions_t actions{};
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    const int error =
        ::posix_spawnp(&pid_, words[0], &actions, nullptr, const_cast<char**>(words.data()),
                       const_cast<char**>(environment.data()));
    ::posix_spawn_file_actions_destroy(&actions);
    ::close(ends[1]);
    said_ = ends[0];
    char byte = 0;
    if (error != 0 || ::read(said_, &byte, 1) != 1) throw std::runtime_error("etcdctl lock failed");
  }

  void release() override {
    ::kill(pid_, SIGINT);
    ::waitpid(pid_, nullptr, 0);
    ::close(said_);
    pid_ = 0;
  }

 private:
  std::string endpoint_;
  std::string key_;
  pid_t pid_ = 0;
  int said_ = -1;
};

}  // namespace

std::unique_ptr<etcd::Server> start_etcd(Report& report) {
  static const std::size_t before_pinning = cores();
  if (before_pinning < 2) {
    report.note("not measured: client and server need a core each");
    return nullptr;
  }
  if (!stored::find_program("etcd")) {
    report.note("not measured: etcd is not installed");
    return nullptr;
  }
  pin_to_core(server_core);
  auto server = std::make_unique<etcd::Server>();
  pin_to_core(client_core);
  return server;
}

Opener etcd_opener(const etcd::Server& server) {
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

bool has_etcdctl() { return stored::find_program("etcdctl").has_value(); }

void compact(const etcd::Server& server, etcd::Engine& engine) {
  const std::string revision = std::to_string(engine.where().by_etcd);
  static_cast<void>(etcd::run({"env", "ETCDCTL_API=3", "etcdctl",
                               "--endpoints=" + server.endpoint(), "compact", revision}));
}

std::unique_ptr<stored::Lock> make_etcdctl_lock(const std::string& endpoint,
                                                const std::string& key) {
  return std::make_unique<EtcdctlLock>(endpoint, key);
}

}  // namespace tenure::bench::cluster
