#include "store/etcd/client.hpp"

#include <utility>

#include "store/etcd/channel.hpp"
#include "tenure/store.hpp"

namespace tenure::etcd {
namespace {

// A member that has lost its leader then says so, instead of keeping what it can't vouch for.
constexpr const char* require_leader = "hasleader";

}  // namespace

Client::Client(Address address) : parts_(std::make_unique<Parts>(std::move(address))) {}
Client::~Client() = default;

const Address& Client::address() const noexcept { return parts_->address; }

void Client::range(const pb::RangeRequest& request, pb::RangeResponse& response) {
  parts_->call(Parts::Kind::read, parts_->address.timeout,
               [&](Parts::Endpoint& endpoint, grpc::ClientContext& context) {
                 return endpoint.kv->Range(&context, request, &response);
               });
}

void Client::txn(const pb::TxnRequest& request, pb::TxnResponse& response, bool changes) {
  parts_->call(changes ? Parts::Kind::change : Parts::Kind::read, parts_->address.timeout,
               [&](Parts::Endpoint& endpoint, grpc::ClientContext& context) {
                 return endpoint.kv->Txn(&context, request, &response);
               });
}

Client::Seconds Client::grant(std::int64_t lease, Seconds ttl) {
  pb::LeaseGrantRequest request;
  request.set_id(lease);
  request.set_ttl(ttl.count());
  pb::LeaseGrantResponse response;
  parts_->call(Parts::Kind::change, parts_->address.timeout,
               [&](Parts::Endpoint& endpoint, grpc::ClientContext& context) {
                 return endpoint.lease->LeaseGrant(&context, request, &response);
               });
  return Seconds{response.ttl()};
}

void Client::revoke(std::int64_t lease) {
  pb::LeaseRevokeRequest request;
  request.set_id(lease);
  parts_->call(Parts::Kind::read, parts_->address.timeout,  // Twice is as good as once.
               [&](Parts::Endpoint& endpoint, grpc::ClientContext& context) {
                 pb::LeaseRevokeResponse response;
                 const grpc::Status status =
                     endpoint.lease->LeaseRevoke(&context, request, &response);
                 const bool gone = status.error_code() == grpc::StatusCode::NOT_FOUND;
                 return gone ? grpc::Status::OK : status;
               });
}

Client::Seconds Client::keep_alive(std::int64_t lease, std::chrono::milliseconds limit) {
  pb::LeaseKeepAliveRequest request;
  request.set_id(lease);
  pb::LeaseKeepAliveResponse response;
  parts_->call(
      Parts::Kind::read, limit, [&](Parts::Endpoint& endpoint, grpc::ClientContext& context) {
        context.AddMetadata(require_leader, "true");
        const auto stream = endpoint.lease->LeaseKeepAlive(&context);
        if (stream->Write(request) && stream->Read(&response)) {
          context.TryCancel();
          static_cast<void>(stream->Finish());
          return grpc::Status::OK;
        }
        const grpc::Status status = stream->Finish();
        return status.ok() ? grpc::Status{grpc::StatusCode::UNAVAILABLE, "no answer"} : status;
      });
  return Seconds{response.ttl()};
}

std::vector<Client::Status> Client::status() {
  std::vector<Status> all;
  for (Parts::Endpoint& endpoint : parts_->endpoints) {
    Status& one = all.emplace_back();
    one.endpoint = endpoint.name;
    grpc::ClientContext context;
    grpc::Status status;
    pb::StatusResponse response;
    const auto deadline = Parts::Clock::now() + parts_->address.timeout;
    endpoint.channel->WaitForConnected(for_grpc(deadline));
    if (parts_->prepare(endpoint, context, deadline, status)) {
      status = endpoint.maintenance->Status(&context, {}, &response);
    }
    if (status.ok()) {
      one.version = response.version();
      one.database_size = response.dbsize();
      one.has_leader = response.leader() != 0;
    } else {
      one.error = status.error_message();
    }
  }
  return all;
}

struct Client::Changes::Stream {
  std::string error;
  grpc::ClientContext* context = nullptr;  // Guarded by mutex, and `cancelled` as well.
  bool cancelled = false;
  base::Mutex mutex;
  std::unique_ptr<grpc::ClientContext> own;
  std::unique_ptr<grpc::ClientReaderWriter<pb::WatchRequest, pb::WatchResponse>> stream;

  // False: cancelled already.
  bool begin() {
    auto fresh = std::make_unique<grpc::ClientContext>();
    const base::Mutex::Scoped lock{mutex};
    if (cancelled) return false;
    context = fresh.get();
    own = std::move(fresh);
    return true;
  }
  void end() {
    if (stream) {
      own->TryCancel();
      const grpc::Status status = stream->Finish();
      if (!status.ok()) error = status.error_message();
      stream.reset();
    }
    const base::Mutex::Scoped lock{mutex};
    context = nullptr;
    own.reset();
  }
};

Client::Changes::Changes() : stream_(std::make_unique<Stream>()) {}
Client::Changes::~Changes() { stream_->end(); }

// NOLINTNEXTLINE(bugprone-easily-swappable-parameters): the two ends of a range, in order.
bool Client::Changes::open(Client& client, const std::string& from, const std::string& to) {
  Stream& self = *stream_;
  self.end();
  if (!self.begin()) return false;
  Parts& parts = *client.parts_;
  const auto deadline = Parts::Clock::now() + std::chrono::seconds{1};
  Parts::Endpoint* const endpoint = parts.connect(deadline);
  if (endpoint == nullptr) {
    self.error = "no endpoint can be reached";
    return false;
  }
  grpc::Status status;
  if (!parts.prepare(*endpoint, *self.own, deadline, status)) {
    self.error = status.error_message();
    parts.leave(*endpoint);
    return false;
  }
  self.own->set_deadline(gpr_inf_future(GPR_CLOCK_MONOTONIC));
  self.own->AddMetadata(require_leader, "true");
  self.stream = endpoint->watch->Watch(self.own.get());
  pb::WatchRequest request;
  request.mutable_create_request()->set_key(from);
  request.mutable_create_request()->set_range_end(to);
  pb::WatchResponse response;
  if (self.stream->Write(request) && self.stream->Read(&response) && response.created() &&
      !response.canceled()) {
    return true;
  }
  if (response.canceled()) self.error = response.cancel_reason();
  self.end();
  parts.leave(*endpoint);
  const base::Mutex::Scoped lock{parts.mutex};
  parts.token.clear();  // It may have been that: the next attempt brings a new one.
  return false;
}

bool Client::Changes::next(pb::WatchResponse& response) {
  Stream& self = *stream_;
  if (!self.stream) return false;
  response.Clear();
  if (self.stream->Read(&response) && !response.canceled()) return true;
  if (response.canceled()) self.error = response.cancel_reason();
  self.end();
  return false;
}

void Client::Changes::cancel() {
  Stream& self = *stream_;
  const base::Mutex::Scoped lock{self.mutex};
  self.cancelled = true;
  if (self.context != nullptr) self.context->TryCancel();
}

const std::string& Client::Changes::error() const noexcept { return stream_->error; }

}  // namespace tenure::etcd
