#include "store/etcd/client.hpp"

#include <set>
#include <utility>

#include "store/etcd/channel.hpp"
#include "tenure/store.hpp"

namespace tenure::etcd {
namespace {

// A member that has lost its leader then reports an error, instead of keeping a stream open that it
// can't serve.
constexpr const char* require_leader = "hasleader";

}  // namespace

Client::Client(Address address) : parts_(std::make_unique<Parts>(std::move(address))) {}
Client::~Client() = default;

const Address& Client::address() const noexcept { return parts_->address; }

void Client::range(const pb::RangeRequest& request, pb::RangeResponse& response) {
  parts_->call(Parts::Kind::read, parts_->address.timeout,
               [&](Parts::Endpoint& endpoint, grpc::ClientContext& context, auto) {
                 return endpoint.kv->Range(&context, request, &response);
               });
}

void Client::txn(const pb::TxnRequest& request, pb::TxnResponse& response, bool changes) {
  parts_->call(changes ? Parts::Kind::change : Parts::Kind::read, parts_->address.timeout,
               [&](Parts::Endpoint& endpoint, grpc::ClientContext& context, auto) {
                 return endpoint.kv->Txn(&context, request, &response);
               });
}

Client::Seconds Client::grant(std::int64_t lease, Seconds ttl) {
  pb::LeaseGrantRequest request;
  request.set_id(lease);
  request.set_ttl(ttl.count());
  pb::LeaseGrantResponse response;
  bool again = false;
  parts_->call(Parts::Kind::read, parts_->address.timeout,
               [&](Parts::Endpoint& endpoint, grpc::ClientContext& context, auto) {
                 grpc::Status status = endpoint.lease->LeaseGrant(&context, request, &response);
                 // An earlier attempt without an answer created the lease; it lives for at least as
                 // long as was asked.
                 if (std::exchange(again, true) &&
                     status.error_message().find("lease already exists") != std::string::npos) {
                   response.set_ttl(ttl.count());
                   status = grpc::Status::OK;
                 }
                 return status;
               });
  return Seconds{response.ttl()};
}

void Client::revoke(std::int64_t lease) {
  pb::LeaseRevokeRequest request;
  request.set_id(lease);
  parts_->call(Parts::Kind::read, parts_->address.timeout,  // Idempotent.
               [&](Parts::Endpoint& endpoint, grpc::ClientContext& context, auto) {
                 pb::LeaseRevokeResponse response;
                 const grpc::Status status =
                     endpoint.lease->LeaseRevoke(&context, request, &response);
                 const bool gone = status.error_code() == grpc::StatusCode::NOT_FOUND;
                 return gone ? grpc::Status::OK : status;
               });
}

Client::Renewed Client::keep_alive(std::int64_t lease, const std::string& key,
                                   std::chrono::milliseconds limit) {
  pb::LeaseKeepAliveRequest request;
  request.set_id(lease);
  pb::LeaseKeepAliveResponse response;
  std::string value;
  parts_->call(
      Parts::Kind::renewal, limit,
      [&](Parts::Endpoint& endpoint, grpc::ClientContext& context, Parts::Deadline deadline) {
        context.AddMetadata(require_leader, "true");
        if (endpoint.term.load() == 0) {
          const grpc::Status first = parts_->learn_term(endpoint, key, deadline);
          if (!first.ok()) return first;
        }
        const std::uint64_t before = endpoint.term.load();
        const auto stream = endpoint.lease->LeaseKeepAlive(&context);
        if (!stream->Write(request) || !stream->Read(&response)) {
          const grpc::Status status = stream->Finish();
          return status.ok() ? grpc::Status{grpc::StatusCode::UNAVAILABLE, "no answer"} : status;
        }
        context.TryCancel();
        static_cast<void>(stream->Finish());
        grpc::Status status = parts_->learn_term(endpoint, key, deadline, &value);
        if (status.ok() && endpoint.term.load() != before) {
          status = {grpc::StatusCode::UNAVAILABLE, "the leader changed"};
        }
        return status;
      });
  return {.ttl = Seconds{response.ttl()}, .value = std::move(value)};
}

std::vector<Client::Status> Client::status() {
  std::vector<Status> all;
  for (std::size_t i = 0; i < address().endpoints.size(); ++i) {
    const std::shared_ptr<Parts::Endpoint> endpoint = parts_->endpoint_at(i);
    Status& one = all.emplace_back();
    one.endpoint = endpoint->name;
    grpc::ClientContext context;
    grpc::Status status;
    pb::StatusResponse response;
    const Parts::Deadline deadline = Parts::Clock::now() + parts_->address.timeout;
    endpoint->channel->WaitForConnected(for_grpc(deadline));
    if (parts_->prepare(*endpoint, context, deadline, status)) {
      status = endpoint->maintenance->Status(&context, {}, &response);
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

bool Client::history(const Period& period, const std::function<bool(const pb::KeyValue&)>& visit) {
  pb::WatchRequest request;
  request.mutable_create_request()->set_key(period.from);
  request.mutable_create_request()->set_range_end(period.to);
  request.mutable_create_request()->set_start_revision(period.after + 1);
  bool whole = false;
  parts_->call(Parts::Kind::read, parts_->address.timeout,
               [&](Parts::Endpoint& endpoint, grpc::ClientContext& context, auto) {
                 const auto stream = endpoint.watch->Watch(&context);
                 pb::WatchResponse response;
                 bool open = stream->Write(request);
                 while (open && !whole && stream->Read(&response)) {
                   open = !response.canceled();  // Otherwise the history was compacted.
                   for (const pb::Event& event : response.events()) {
                     const bool enough = event.type() == pb::Event::PUT && !visit(event.kv());
                     whole = whole || enough || event.kv().mod_revision() >= period.last;
                   }
                 }
                 context.TryCancel();
                 const grpc::Status status = stream->Finish();
                 return whole || response.canceled() ? grpc::Status::OK : status;
               });
  return whole;
}

struct Client::Changes::Stream {
  std::string error;
  Parts* parts = nullptr;  // Set while the stream is registered there.
  std::shared_ptr<Parts::Endpoint> endpoint;
  grpc::ClientContext* context = nullptr;  // Guarded by mutex; so is `cancelled`.
  bool cancelled = false;
  base::Mutex mutex;
  std::unique_ptr<grpc::ClientContext> own;
  // One thread reads, any thread writes; `writing` guards the pointer against the stream's end.
  base::Mutex writing;
  std::unique_ptr<grpc::ClientReaderWriter<pb::WatchRequest, pb::WatchResponse>> stream;

  std::set<std::int64_t> unwatched TENURE_GUARDED_BY(writing);

  void write(const pb::WatchRequest& request) {
    const base::Mutex::Scoped lock{writing};
    if (stream) stream->Write(request);  // A stream that has ended says so to its reader.
  }
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
      const base::Mutex::Scoped lock{writing};
      const grpc::Status status = stream->Finish();
      if (!status.ok()) error = status.error_message();
      stream.reset();
    }
    if (parts != nullptr) std::exchange(parts, nullptr)->stream_ends(*own);
    const base::Mutex::Scoped lock{mutex};
    context = nullptr;
    own.reset();
  }
};

Client::Changes::Changes() : stream_(std::make_unique<Stream>()) {}
Client::Changes::~Changes() { stream_->end(); }

bool Client::Changes::open(Client& client, const std::string& probe) {
  Stream& self = *stream_;
  self.end();
  if (!self.begin()) return false;
  Parts& parts = *client.parts_;
  const Parts::Deadline deadline = Parts::Clock::now() + std::chrono::seconds{1};
  const std::shared_ptr<Parts::Endpoint> endpoint = parts.connect(deadline);
  if (!endpoint) {
    self.error = "no endpoint can be reached";
    return false;
  }
  // The stream has no time limit, so first check that the endpoint answers at all.
  grpc::Status status = parts.learn_term(*endpoint, probe, deadline);
  if (!status.ok() || !parts.prepare(*endpoint, *self.own, deadline, status)) {
    self.error = status.error_message();
    if (status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED) {
      parts.give_up(*endpoint);
    } else {
      parts.leave(*endpoint);
      parts.forget_token();
    }
    return false;
  }
  self.own->set_deadline(gpr_inf_future(GPR_CLOCK_MONOTONIC));
  self.own->AddMetadata(require_leader, "true");
  parts.stream_begins(*endpoint, *self.own);
  self.parts = &parts;
  self.endpoint = endpoint;
  const base::Mutex::Scoped lock{self.writing};
  self.stream = endpoint->watch->Watch(self.own.get());
  self.unwatched.clear();
  return true;
}

bool Client::Changes::next(pb::WatchResponse& response) {
  Stream& self = *stream_;
  if (!self.stream) return false;
  for (;;) {
    response.Clear();
    if (!self.stream->Read(&response)) break;
    if (!response.canceled()) return true;
    {
      const base::Mutex::Scoped lock{self.writing};
      if (self.unwatched.erase(response.watch_id()) != 0) continue;
    }
    self.error = response.cancel_reason();
    self.parts->leave(*self.endpoint);
    self.parts->forget_token();
    break;
  }
  self.end();
  return false;
}

// NOLINTNEXTLINE(bugprone-easily-swappable-parameters): a range has an order.
void Client::Changes::watch(std::int64_t id, const std::string& from, const std::string& to) {
  pb::WatchRequest request;
  request.mutable_create_request()->set_watch_id(id);
  request.mutable_create_request()->set_key(from);
  request.mutable_create_request()->set_range_end(to);
  stream_->write(request);
}

void Client::Changes::unwatch(std::int64_t id) {
  pb::WatchRequest request;
  request.mutable_cancel_request()->set_watch_id(id);
  {
    const base::Mutex::Scoped lock{stream_->writing};
    stream_->unwatched.insert(id);
  }
  stream_->write(request);
}

void Client::Changes::cancel() {
  Stream& self = *stream_;
  const base::Mutex::Scoped lock{self.mutex};
  self.cancelled = true;
  if (self.context != nullptr) self.context->TryCancel();
}

const std::string& Client::Changes::error() const noexcept { return stream_->error; }

}  // namespace tenure::etcd
