// channel.hpp: what client.cpp and streams.cpp share: endpoints, credentials, tokens, failover.
#pragma once

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/annotations.hpp"
#include "base/mutex.hpp"
#include "rpc.grpc.pb.h"
#include "store/etcd/client.hpp"

namespace tenure::etcd {

// A moment as gRPC takes it.
[[nodiscard]] gpr_timespec for_grpc(std::chrono::steady_clock::time_point deadline) noexcept;

struct Client::Parts {
  // Not by the wall clock, which may be put forward or back while a call waits.
  using Clock = std::chrono::steady_clock;
  using Deadline = Clock::time_point;
  struct Endpoint {
    std::string name;
    std::shared_ptr<grpc::Channel> channel;
    std::unique_ptr<pb::KV::Stub> kv;
    std::unique_ptr<pb::Watch::Stub> watch;
    std::unique_ptr<pb::Lease::Stub> lease;
    std::unique_ptr<pb::Maintenance::Stub> maintenance;
    std::unique_ptr<pb::Auth::Stub> auth;
    std::atomic<std::uint64_t> term = 0;  // Of its leader, when a majority last said so.
  };
  enum class Kind : std::uint8_t { read, change };
  using Call = std::function<grpc::Status(Endpoint&, grpc::ClientContext&, Deadline)>;

  explicit Parts(Address where);

  // Throws what the last failure means.
  void call(Kind kind, std::chrono::milliseconds limit, const Call& rpc);
  // Connected, and with the user's token where there is one; null: no endpoint can be reached.
  Endpoint* connect(Deadline deadline);
  // False: `status` says why.
  bool prepare(Endpoint& endpoint, grpc::ClientContext& context, Deadline deadline,
               grpc::Status& status);
  // By a read that only the leader of a majority can answer.
  [[nodiscard]] grpc::Status learn_term(Endpoint& endpoint, const std::string& key,
                                        Deadline deadline);
  void forget_token(const std::string& used);
  void leave(const Endpoint& endpoint) noexcept;  // The next call begins with another.
  [[nodiscard]] std::string why_unreachable();

  const Address address;
  // One that is alone is there twice: when calls get no answer on a connection that looks well,
  // they go on with another. gRPC gives none up that anything comes from, be it only what a watch
  // is told.
  std::vector<Endpoint> endpoints;
  std::atomic<std::size_t> current = 0;

  base::Mutex mutex;
  std::string token TENURE_GUARDED_BY(mutex);

 private:
  [[nodiscard]] bool try_again(Kind kind, const grpc::Status& status, const Endpoint& endpoint);
};

// What the server says, in our words.
[[noreturn]] void throw_status(const grpc::Status& status, const Address& address, bool unknown);

}  // namespace tenure::etcd
