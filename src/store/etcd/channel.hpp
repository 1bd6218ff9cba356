// channel.hpp: what client.cpp stands on: endpoints, credentials, tokens, failover.
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

// A moment as gRPC takes it.
[[nodiscard]] gpr_timespec for_grpc(std::chrono::steady_clock::time_point deadline) noexcept;

struct Client::Parts {
  // Not by the wall clock, which may be put forward or back while a call waits.
  using Clock = std::chrono::steady_clock;
  using Deadline = Clock::time_point;
  // One connection to it, and what it is asked by.
  struct Endpoint {
    std::string name;
    std::size_t index = 0;
    std::shared_ptr<grpc::Channel> channel;
    std::unique_ptr<pb::KV::Stub> kv;
    std::unique_ptr<pb::Watch::Stub> watch;
    std::unique_ptr<pb::Lease::Stub> lease;
    std::unique_ptr<pb::Maintenance::Stub> maintenance;
    std::unique_ptr<pb::Auth::Stub> auth;
    std::atomic<std::uint64_t> term = 0;      // Of its leader, when a majority last said so.
    std::atomic<Clock::rep> avoid_until = 0;  // It was silent: only where there is no other.
  };
  enum class Kind : std::uint8_t {
    read,     // Twice is as good as once: by several endpoints, if need be.
    renewal,  // The same, but by one: its caller has little time, and comes back.
    change,
  };
  using Call = std::function<grpc::Status(Endpoint&, grpc::ClientContext&, Deadline)>;

  explicit Parts(Address where);

  // Throws what the last failure means.
  void call(Kind kind, std::chrono::milliseconds limit, const Call& rpc);
  // Null: no endpoint can be reached.
  std::shared_ptr<Endpoint> connect(Deadline deadline);
  // False: `status` says why.
  bool prepare(Endpoint& endpoint, grpc::ClientContext& context, Deadline deadline,
               grpc::Status& status);
  // By a read that only the leader of a majority can answer.
  [[nodiscard]] grpc::Status learn_term(Endpoint& endpoint, const std::string& key,
                                        Deadline deadline);
  void forget_token(const std::string& used);
  void forget_token();  // It may have been that: the next attempt brings a new one.
  void leave(const Endpoint& endpoint) noexcept;  // The next call begins with another.
  // It took a call and did not answer: it is stopped, or cut off, and its connection does not show.
  // The next is by a new one: gRPC would take many seconds to end this one, and never does while
  // anything comes from it, be it only what a watch is told.
  void give_up(const Endpoint& endpoint);
  // Streams are read without a limit, so they end with their endpoint.
  void stream_begins(const Endpoint& endpoint, grpc::ClientContext& context);
  void stream_ends(const grpc::ClientContext& context);
  [[nodiscard]] std::string why_unreachable(std::chrono::milliseconds limit);

  const Address address;
  std::atomic<std::size_t> current = 0;

  base::Mutex mutex;
  std::vector<std::shared_ptr<Endpoint>> endpoints TENURE_GUARDED_BY(mutex);  // As in the address.
  std::string token TENURE_GUARDED_BY(mutex);
  struct Stream {
    const Endpoint* endpoint;
    grpc::ClientContext* context;
  };
  std::vector<Stream> streams TENURE_GUARDED_BY(mutex);

  [[nodiscard]] std::shared_ptr<Endpoint> endpoint_at(std::size_t index);

 private:
  [[nodiscard]] std::shared_ptr<Endpoint> new_endpoint(std::size_t index) const;
  // `silent`: for as long as was said.
  [[nodiscard]] bool try_again(Kind kind, const grpc::Status& status, const Endpoint& endpoint,
                               std::chrono::nanoseconds silent);
  [[nodiscard]] std::shared_ptr<Endpoint> ready(bool any);
  [[nodiscard]] int shares(Kind kind) const noexcept;

  const std::shared_ptr<grpc::ChannelCredentials> credentials_;
};

// What the server says, in our words.
[[noreturn]] void throw_status(const grpc::Status& status, const Address& address, bool unknown);

}  // namespace tenure::etcd
