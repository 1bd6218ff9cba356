// A server that refuses a request, or does not say whether it accepted it. Real servers do that
// rarely, so a proxy in front of one answers in its words, and forwards everything else.
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <utility>

#include "rpc.grpc.pb.h"
#include "store/conformance.hpp"
#include "store/etcd/address.hpp"
#include "store/etcd/executor.hpp"
#include "tests/kit/etcd.hpp"

namespace tenure::etcd {
namespace {

using kit::Etcd;
using kit::new_prefix;

using conformance::txn;

class Door final : public pb::KV::Service {
 public:
  explicit Door(const Etcd& behind)
      : kv_(pb::KV::NewStub(
            grpc::CreateChannel(behind.endpoint(), grpc::InsecureChannelCredentials()))) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
  }
  Door(const Door&) = delete;
  Door& operator=(const Door&) = delete;
  ~Door() override { server_->Shutdown(); }

  [[nodiscard]] Address address() const {
    return parse_address("etcd://127.0.0.1:" + std::to_string(port_) + '/' + new_prefix() +
                         "?timeout=2s");
  }
  // For the next transactions. `made`: only the answer is withheld.
  void refuse(int times, grpc::Status status, bool made = false) {
    status_ = std::move(status);
    made_ = made;
    left_ = times;
  }
  [[nodiscard]] int left() const { return left_; }

  grpc::Status Txn(grpc::ServerContext* /*context*/, const pb::TxnRequest* request,
                   pb::TxnResponse* response) override {
    const bool refused = left_.load() > 0 && left_.fetch_sub(1) > 0;
    if (refused && !made_) return status_;
    grpc::ClientContext context;
    const grpc::Status status = kv_->Txn(&context, *request, response);
    return refused ? status_ : status;
  }
  grpc::Status Range(grpc::ServerContext* /*context*/, const pb::RangeRequest* request,
                     pb::RangeResponse* response) override {
    grpc::ClientContext context;
    return kv_->Range(&context, *request, response);
  }

 private:
  const std::unique_ptr<pb::KV::Stub> kv_;
  std::unique_ptr<grpc::Server> server_;
  int port_ = 0;
  grpc::Status status_;
  bool made_ = false;
  std::atomic<int> left_{0};
};

const grpc::Status too_many{grpc::StatusCode::RESOURCE_EXHAUSTED, "etcdserver: too many requests"};
const grpc::Status no_leader{grpc::StatusCode::UNAVAILABLE, "etcdserver: no leader"};

std::size_t written(Executor& executor) {
  return executor.apply(txn({}, {}, {Range::prefix("log/")})).reads.at(0).size();
}

TEST(EtcdBusy, WhatItDoesNotTakeIsAskedAgain) {
  Door door{Etcd::instance()};
  Executor executor{door.address()};
  std::size_t made = 0;
  for (const grpc::Status& status : {too_many, no_leader}) {
    door.refuse(3, status);
    EXPECT_TRUE(executor.apply(txn({}, {Write::append("log/", "")})).committed);
    EXPECT_EQ(door.left(), 0);
    EXPECT_EQ(written(executor), ++made);
  }
}

// Nothing was written, and the error says so.
TEST(EtcdBusy, WhatItNeverTakesIsAnErrorThatIsKnown) {
  Door door{Etcd::instance()};
  Executor executor{door.address()};
  door.refuse(1'000'000, too_many);
  try {
    std::ignore = executor.apply(txn({}, {Write::append("log/", "")}));
    ADD_FAILURE() << "it did not throw";
  } catch (const StoreError& error) {
    EXPECT_FALSE(error.unknown());
    EXPECT_NE(std::string{error.what()}.find("too many requests"), std::string::npos);
  }
  door.refuse(0, {});
  EXPECT_EQ(written(executor), 0U);
}

}  // namespace
}  // namespace tenure::etcd
