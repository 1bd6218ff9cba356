// channel.hpp: the base of client.cpp: endpoints, credentials, tokens, failover.
#pragma once

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/annotations.hpp"
#include "base/mutex.hpp"
#include "rpc.grpc.pb.h"
#include "store/etcd/client.hpp"

namespace tenure::etcd {

// A deadline in gRPC's own type.
[[nodiscard]] gpr_timespec for_grpc(std::chrono::steady_clock::time_point deadline) noexcept;

struct Client::Parts {
  // Not the wall clock, which may be set while a call waits.
  using Clock = std::chrono::steady_clock;
  using Deadline = Clock::time_point;
  // One connection to an endpoint, and its stubs.
  struct Endpoint {
    std::string name;
    std::size_t index = 0;
    std::shared_ptr<grpc::Channel> channel;
    std::unique_ptr<pb::KV::Stub> kv;
    std::unique_ptr<pb::Watch::Stub> watch;
    std::unique_ptr<pb::Lease::Stub> lease;
    std::unique_ptr<pb::Maintenance::Stub> maintenance;
    std::unique_ptr<pb::Auth::Stub> auth;
    // Its leader's term, when a majority last confirmed it.
    std::atomic<std::uint64_t> term = 0;
    std::atomic<Clock::rep> avoid_until = 0;  // It was silent: use it only if there is no other.
  };
  enum class Kind : std::uint8_t {
    read,     // Idempotent: may be sent to several endpoints.
    renewal,  // Idempotent, but sent to one endpoint: its caller has little time, and retries.
    change,
  };
  using Call = std::function<grpc::Status(Endpoint&, grpc::ClientContext&, Deadline)>;

  explicit Parts(Address where);

  // Throws an error that describes the last failure.
  void call(Kind kind, std::chrono::milliseconds limit, const Call& rpc);
  // Null: no endpoint can be reached.
  std::shared_ptr<Endpoint> connect(Deadline deadline);
  // False: `status` says why.
  bool prepare(Endpoint& endpoint, grpc::ClientContext& context, Deadline deadline,
               grpc::Status& status);
  // Reads a key, which only the leader of a majority can answer.
  [[nodiscard]] grpc::Status learn_term(Endpoint& endpoint, const std::string& key,
                                        Deadline deadline, std::string* value = nullptr);
  void forget_token(const std::string& used);
  void forget_token();  // The token may have been the problem: the next attempt gets a new one.
  void leave(const Endpoint& endpoint) noexcept;  // The next call begins with another endpoint.
  // The endpoint accepted a call and did not answer: it is stopped or cut off, and its connection
  // does not show that. The next call uses a new connection: gRPC would take many seconds to close
  // this one, and never does while anything arrives on it, be it only watch events.
  void give_up(const Endpoint& endpoint);
  // Streams are read without a time limit, so they are cancelled when their endpoint is given up.
  void stream_begins(const Endpoint& endpoint, grpc::ClientContext& context);
  void stream_ends(const grpc::ClientContext& context);
  [[nodiscard]] std::string why_unreachable(std::chrono::milliseconds limit);

  const Address address;
  std::atomic<std::size_t> current = 0;

  base::Mutex mutex;
  // In the order of the address.
  std::vector<std::shared_ptr<Endpoint>> endpoints TENURE_GUARDED_BY(mutex);
  std::string token TENURE_GUARDED_BY(mutex);
  struct Stream {
    const Endpoint* endpoint;
    grpc::ClientContext* context;
  };
  std::vector<Stream> streams TENURE_GUARDED_BY(mutex);

  [[nodiscard]] std::shared_ptr<Endpoint> endpoint_at(std::size_t index);

 private:
  [[nodiscard]] std::shared_ptr<Endpoint> new_endpoint(std::size_t index) const;
  // `silent`: how long the endpoint did not answer.
  [[nodiscard]] bool try_again(Kind kind, const grpc::Status& status, const Endpoint& endpoint,
                               std::chrono::nanoseconds silent);
  [[nodiscard]] std::shared_ptr<Endpoint> ready(bool any);
  [[nodiscard]] int shares(Kind kind) const noexcept;

  const std::shared_ptr<grpc::ChannelCredentials> credentials_;
};

// Throws the error that a status of the server means.
[[noreturn]] void throw_status(const grpc::Status& status, const Address& address, bool unknown);

}  // namespace tenure::etcd
