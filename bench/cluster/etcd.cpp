#include "bench/cluster/etcd.hpp"

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <csignal>
#include <optional>
#include <stdexcept>
#include <utility>

#include "bench/program.hpp"
#include "rpc.grpc.pb.h"
#include "store/etcd/etcd_store.hpp"
#include "store/etcd/requests.hpp"
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

namespace pb = etcd::pb;

// Calls that fail end the benchmark.
class BareClient {
 public:
  explicit BareClient(const std::string& endpoint)
      : channel_(grpc::CreateChannel(endpoint, grpc::InsecureChannelCredentials())),
        kv_(pb::KV::NewStub(channel_)),
        lease_(pb::Lease::NewStub(channel_)),
        watch_(pb::Watch::NewStub(channel_)) {}

  void put(const pb::PutRequest& request) {
    pb::PutResponse response;
    call([&](grpc::ClientContext& context) { return kv_->Put(&context, request, &response); });
  }
  void remove(const std::string& key) {
    pb::DeleteRangeRequest request;
    request.set_key(key);
    pb::DeleteRangeResponse response;
    call([&](grpc::ClientContext& context) {
      return kv_->DeleteRange(&context, request, &response);
    });
  }
  pb::TxnResponse txn(const pb::TxnRequest& request) {
    pb::TxnResponse response;
    call([&](grpc::ClientContext& context) { return kv_->Txn(&context, request, &response); });
    return response;
  }
  pb::RangeResponse range(const pb::RangeRequest& request) {
    pb::RangeResponse response;
    call([&](grpc::ClientContext& context) { return kv_->Range(&context, request, &response); });
    return response;
  }
  std::int64_t grant(std::chrono::seconds ttl) {
    pb::LeaseGrantRequest request;
    request.set_ttl(ttl.count());
    pb::LeaseGrantResponse response;
    call([&](grpc::ClientContext& context) {
      return lease_->LeaseGrant(&context, request, &response);
    });
    return response.id();
  }
  // Returns when the key is removed after that revision.
  void wait_for_removal(const std::string& key, std::int64_t after) {
    if (!stream_) stream_ = watch_->Watch(&context_);
    pb::WatchRequest create;
    create.mutable_create_request()->set_key(key);
    create.mutable_create_request()->set_start_revision(after + 1);
    create.mutable_create_request()->set_watch_id(++last_watch_);
    stream_->Write(create);
    pb::WatchResponse response;
    for (bool removed = false; !removed;) {
      if (!stream_->Read(&response)) throw std::runtime_error("etcd: the watch stream ended");
      if (response.watch_id() != last_watch_) continue;
      for (const pb::Event& event : response.events()) {
        removed = removed || event.type() == pb::Event::DELETE;
      }
    }
    pb::WatchRequest cancel;
    cancel.mutable_cancel_request()->set_watch_id(last_watch_);
    stream_->Write(cancel);
  }

 private:
  template <class Call>
  static void call(const Call& make) {
    grpc::ClientContext context;
    const grpc::Status status = make(context);
    if (!status.ok()) throw std::runtime_error("etcd: " + status.error_message());
  }

  const std::shared_ptr<grpc::Channel> channel_;
  const std::unique_ptr<pb::KV::Stub> kv_;
  const std::unique_ptr<pb::Lease::Stub> lease_;
  const std::unique_ptr<pb::Watch::Stub> watch_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReaderWriter<pb::WatchRequest, pb::WatchResponse>> stream_;
  std::int64_t last_watch_ = 0;
};

class EtcdMutex final : public stored::Lock {
 public:
  EtcdMutex(const std::string& endpoint, const std::string& prefix)  // NOLINT: two strings.
      : client_(endpoint), prefix_(prefix + '/') {
    const std::int64_t lease = client_.grant(std::chrono::hours{1});
    key_ = prefix_ + std::to_string(lease);
    etcd::compare_created(enter_, pb::Compare::EQUAL, key_);
    etcd::add_put(*enter_.mutable_success(), key_, {}).set_lease(lease);
    pb::RangeRequest& owner = *enter_.add_success()->mutable_request_range();
    owner = whole_prefix();
    owner.set_sort_target(pb::RangeRequest::CREATE);
    owner.set_sort_order(pb::RangeRequest::ASCEND);
    owner.set_limit(1);
  }

  void acquire() override {
    const pb::TxnResponse entered = client_.txn(enter_);
    const std::int64_t own = entered.header().revision();
    if (entered.responses(1).response_range().kvs(0).create_revision() == own) return;
    for (;;) {
      pb::RangeRequest before = whole_prefix();
      before.set_sort_target(pb::RangeRequest::CREATE);
      before.set_sort_order(pb::RangeRequest::DESCEND);
      before.set_limit(1);
      before.set_max_create_revision(own - 1);
      const pb::RangeResponse last = client_.range(before);
      if (last.kvs().empty()) return;
      client_.wait_for_removal(last.kvs(0).key(), last.header().revision());
    }
  }
  void release() override { client_.remove(key_); }

 private:
  [[nodiscard]] pb::RangeRequest whole_prefix() const {
    pb::RangeRequest request;
    request.set_key(prefix_);
    request.set_range_end(prefix_end(prefix_));
    return request;
  }

  BareClient client_;
  const std::string prefix_;
  std::string key_;
  pb::TxnRequest enter_;
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

std::function<void()> make_bare_writes(const std::string& endpoint, const std::string& key) {
  return [client = std::make_shared<BareClient>(endpoint), key] {
    pb::PutRequest put;
    put.set_key(key);
    put.set_value(std::string(ticket_bytes, 'x'));
    client->put(put);
    client->remove(key);
  };
}

std::unique_ptr<stored::Lock> make_etcd_mutex(const std::string& endpoint,
                                              const std::string& prefix) {
  return std::make_unique<EtcdMutex>(endpoint, prefix);
}

bool has_etcdctl() { return kit::find_program("etcdctl").has_value(); }

void compact(const kit::Etcd& server, etcd::Executor& executor) {
  const std::string revision = std::to_string(executor.read_last_apply().by_etcd);
  server.etcdctl({"compact", revision});
}

std::unique_ptr<stored::Lock> make_etcdctl_lock(const std::string& endpoint,
                                                const std::string& key) {
  return std::make_unique<EtcdctlLock>(endpoint, key);
}

}  // namespace tenure::bench::cluster
