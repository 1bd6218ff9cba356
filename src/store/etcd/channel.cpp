#include "store/etcd/channel.hpp"

#include <grpc/support/log.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <random>
#include <string_view>
#include <thread>
#include <utility>

#include "base/backoff.hpp"
#include "tenure/error.hpp"
#include "tenure/store.hpp"

namespace tenure::etcd {
namespace {

using namespace std::chrono_literals;

constexpr auto connect_look = 20ms;  // How often to check all endpoints until one is connected.
// After that, an endpoint that was silent is better than none.
constexpr auto silent_limit = 100ms;
constexpr auto explain_limit = 2s;
// How long to avoid an endpoint that was silent, if there are others.
constexpr auto avoid_time = 10s;
// A shorter silence says nothing about the connection: there was no time for an answer.
constexpr auto silence = 100ms;
constexpr auto first_pause = 5ms;  // Before retrying a request that the server did not accept.
constexpr auto longest_pause = 200ms;
constexpr int keepalive_ms = 6'000;  // etcd closes connections that ping more often than every 5 s.
constexpr int keepalive_timeout_ms = 3'000;
constexpr std::string_view system_roots = "/etc/ssl/certs/ca-certificates.crt";

std::string read_file(const std::string& path) {
  std::ifstream file{path, std::ios::binary};
  if (!file)
    throw StoreError("etcd: '" + path + "' can't be read: check the path and its permissions");
  return {std::istreambuf_iterator<char>{file}, {}};
}

std::shared_ptr<grpc::ChannelCredentials> credentials(const Address& address) {
  if (!address.tls) return grpc::InsecureChannelCredentials();
  grpc::SslCredentialsOptions options;
  if (!address.ca_file.empty()) {
    options.pem_root_certs = read_file(address.ca_file);
  } else if (std::ifstream{std::string{system_roots}}) {
    options.pem_root_certs = read_file(std::string{system_roots});
  }
  if (!address.cert_file.empty()) {
    options.pem_cert_chain = read_file(address.cert_file);
    options.pem_private_key = read_file(address.key_file);
  }
  return grpc::SslCredentials(options);
}

grpc::ChannelArguments arguments() {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(-1);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 50);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 1'000);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1'000);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, keepalive_ms);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, keepalive_timeout_ms);
  // Pings a stream that only receives, too: gRPC would stop after two pings without data.
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  // Each store has a connection of its own, so that closing it does not affect other stores.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  return arguments;
}

// Errors are thrown, so gRPC's own messages on standard error are printed only on request.
void be_quiet() {
  static const bool once = [] {
    // NOLINTNEXTLINE(concurrency-mt-unsafe)
    if (std::getenv("GRPC_VERBOSITY") == nullptr) {
      gpr_set_log_function([](gpr_log_func_args* /*line*/) {});
    }
    return true;
  }();
  static_cast<void>(once);
}

bool says(const grpc::Status& status, std::string_view text) {
  return status.error_message().find(text) != std::string::npos;
}

bool token_expired(const grpc::Status& status) {
  return status.error_code() == grpc::StatusCode::UNAUTHENTICATED ||
         says(status, "invalid auth token") || says(status, "auth: revision in header is old");
}

// The server refused the request before doing anything. "server stopped" is not among these: the
// server ended while other members may have been about to commit.
bool was_not_taken(const grpc::Status& status) {
  return says(status, "etcdserver: too many requests") || says(status, "etcdserver: no leader") ||
         says(status, "etcdserver: not leader") || says(status, "raft proposal dropped");
}

bool is_cut(const grpc::Status& status) {
  return status.error_code() == grpc::StatusCode::UNAVAILABLE ||
         status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED ||
         status.error_code() == grpc::StatusCode::CANCELLED ||
         status.error_code() == grpc::StatusCode::INTERNAL || says(status, "server stopped");
}

// Removes the prefix of gRPC's messages, which is always the same.
std::string reason(const grpc::Status& status) {
  std::string text = status.error_message();
  constexpr std::string_view before = "last error: ";
  if (const std::size_t at = text.find(before); at != std::string::npos) {
    text.erase(0, at + before.size());
  }
  return text;
}

// For an endpoint that could not be reached.
std::string advice(const grpc::Status& status, bool tls) {
  if (says(status, "certificate verify failed")) {
    return "the server's certificate is not trusted: check that it has not expired, that it is for "
           "this host, and that ca= names the certificate of the authority that signed it";
  }
  if (says(status, "DNS resolution failed")) return "check the host name in the URL";
  if (says(status, "refused"))
    return "check the host and the port, and that etcd is running and listens there";
  if (says(status, "handshake failed") || says(status, "Ssl")) {
    return "check ca=, and whether the server requires a client certificate (cert=, key=)";
  }
  if (says(status, "Socket closed") || says(status, "reset by peer")) {
    return tls ? "the server closed the connection at once: it may have no TLS (use etcd://), or "
                 "may require a client certificate (cert=, key=)"
               : "the server closed the connection at once: it may require TLS (use etcds://)";
  }
  return "check the host, the port and TLS, and that etcd is running";
}

std::string who(const Address& address) {
  return address.user.empty() ? "a client without a user name" : "the user '" + address.user + "'";
}

}  // namespace

void throw_status(const grpc::Status& status, const Address& address, bool unknown) {
  const std::string where = "etcd at " + address.text() + ": ";
  if (says(status, "too many operations in txn request")) {
    throw BadRequest(
        where +
        "the transaction has more operations than the server allows (--max-txn-ops, default "
        "128): split it, or raise that limit");
  }
  if (says(status, "request is too large") || says(status, "larger than max")) {
    throw BadRequest(
        where +
        "the transaction has more bytes than the server allows (--max-request-bytes, default "
        "1.5 MB): split it, or raise that limit");
  }
  if (says(status, "database space exceeded")) {
    throw StoreError(
        where +
        "its database is full: compact and defragment it, disarm the alarm (etcdctl compact, "
        "defrag, alarm disarm), and turn on auto-compaction");
  }
  if (says(status, "permission denied")) {
    throw StoreError(where + who(address) + " may not read and write the prefix '" +
                     address.prefix +
                     "': grant it (etcdctl role grant-permission ROLE --prefix=true readwrite " +
                     address.prefix + ")");
  }
  if (says(status, "authentication is not enabled")) {
    throw StoreError(
        where +
        "the URL names a user, but authentication is off: remove the user from the URL, or "
        "turn on authentication (etcdctl auth enable)");
  }
  if (says(status, "authentication failed") || says(status, "user name is empty") ||
      says(status, "user name not found") || token_expired(status)) {
    throw StoreError(where + "the server rejected " + who(address) + ": check user and password (" +
                     status.error_message() + ")");
  }
  if (unknown) {
    throw StoreError(
        where +
            "no answer, so it is not known whether the transaction was committed: read before "
            "retrying (" +
            status.error_message() + ")",
        true);
  }
  throw StoreError(where + status.error_message());
}

gpr_timespec for_grpc(std::chrono::steady_clock::time_point deadline) noexcept {
  const std::chrono::nanoseconds left = deadline - std::chrono::steady_clock::now();
  return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
                      gpr_time_from_nanos(left.count(), GPR_TIMESPAN));
}

Client::Parts::Parts(Address where)
    : address(std::move(where)), credentials_(credentials(address)) {
  be_quiet();
  for (std::size_t i = 0; i < address.endpoints.size(); ++i) endpoints.push_back(new_endpoint(i));
}

std::shared_ptr<Client::Parts::Endpoint> Client::Parts::new_endpoint(std::size_t index) const {
  auto one = std::make_shared<Endpoint>();
  one->name = address.endpoints[index];
  one->index = index;
  one->channel = grpc::CreateCustomChannel(one->name, credentials_, arguments());
  one->kv = pb::KV::NewStub(one->channel);
  one->watch = pb::Watch::NewStub(one->channel);
  one->lease = pb::Lease::NewStub(one->channel);
  one->maintenance = pb::Maintenance::NewStub(one->channel);
  one->auth = pb::Auth::NewStub(one->channel);
  return one;
}

std::shared_ptr<Client::Parts::Endpoint> Client::Parts::endpoint_at(std::size_t index) {
  const base::Mutex::Scoped lock{mutex};
  return endpoints[index];
}

void Client::Parts::leave(const Endpoint& endpoint) noexcept {
  std::size_t index = endpoint.index;
  current.compare_exchange_strong(index, (index + 1) % address.endpoints.size());
}

void Client::Parts::give_up(const Endpoint& endpoint) {
  leave(endpoint);
  std::shared_ptr<Endpoint> fresh = new_endpoint(endpoint.index);
  fresh->avoid_until.store((Clock::now() + avoid_time).time_since_epoch().count());
  const base::Mutex::Scoped lock{mutex};
  std::shared_ptr<Endpoint>& now = endpoints[endpoint.index];
  if (now.get() == &endpoint) now.swap(fresh);
  for (const Stream& one : streams) {
    if (one.endpoint == &endpoint) one.context->TryCancel();
  }
}

void Client::Parts::stream_begins(const Endpoint& endpoint, grpc::ClientContext& context) {
  const base::Mutex::Scoped lock{mutex};
  streams.push_back({.endpoint = &endpoint, .context = &context});
  // The endpoint was given up meanwhile.
  if (endpoints[endpoint.index].get() != &endpoint) context.TryCancel();
}

void Client::Parts::stream_ends(const grpc::ClientContext& context) {
  const base::Mutex::Scoped lock{mutex};
  std::erase_if(streams, [&](const Stream& one) { return one.context == &context; });
}

// The current endpoint, or the next one that is connected; one that was silent only if `any` is
// true. Tells all endpoints to connect.
std::shared_ptr<Client::Parts::Endpoint> Client::Parts::ready(bool any) {
  const std::size_t count = address.endpoints.size();
  std::size_t first = current.load();
  std::shared_ptr<Endpoint> one = endpoint_at(first);
  if (one->channel->GetState(true) == GRPC_CHANNEL_READY && one->avoid_until.load() == 0) {
    return one;
  }
  const Clock::rep now = Clock::now().time_since_epoch().count();
  std::shared_ptr<Endpoint> silent;
  for (std::size_t i = 0; i < count; ++i) {
    one = endpoint_at((first + i) % count);
    if (one->channel->GetState(true) != GRPC_CHANNEL_READY) continue;
    if (count > 1 && one->avoid_until.load() > now) {
      if (!silent) silent = std::move(one);
      continue;
    }
    one->avoid_until.store(0);
    current.compare_exchange_strong(first, one->index);
    return one;
  }
  return any ? silent : nullptr;
}

std::shared_ptr<Client::Parts::Endpoint> Client::Parts::connect(Deadline deadline) {
  const Deadline patient_until = Clock::now() + silent_limit;
  for (std::size_t i = current.load();; ++i) {
    const Deadline now = Clock::now();
    if (auto one = ready(now >= patient_until)) return one;
    if (now >= deadline) return nullptr;
    const Deadline limit = std::min(deadline, Deadline{now + connect_look});
    endpoint_at(i % address.endpoints.size())->channel->WaitForConnected(for_grpc(limit));
  }
}

bool Client::Parts::prepare(Endpoint& endpoint, grpc::ClientContext& context, Deadline deadline,
                            grpc::Status& status) {
  context.set_deadline(for_grpc(deadline));
  if (address.user.empty()) return true;
  std::string known;
  {
    const base::Mutex::Scoped lock{mutex};
    known = token;
  }
  if (known.empty()) {
    grpc::ClientContext asking;
    asking.set_deadline(for_grpc(deadline));
    pb::AuthenticateRequest request;
    request.set_name(address.user);
    request.set_password(address.password);
    pb::AuthenticateResponse response;
    status = endpoint.auth->Authenticate(&asking, request, &response);
    if (!status.ok()) return false;
    known = response.token();
    const base::Mutex::Scoped lock{mutex};
    token = known;
  }
  context.AddMetadata("token", known);
  return true;
}

grpc::Status Client::Parts::learn_term(Endpoint& endpoint, const std::string& key,
                                       Deadline deadline, std::string* value) {
  grpc::ClientContext context;
  grpc::Status status;
  if (!prepare(endpoint, context, deadline, status)) return status;
  pb::RangeRequest request;
  request.set_key(key);
  request.set_count_only(value == nullptr);
  pb::RangeResponse response;
  status = endpoint.kv->Range(&context, request, &response);
  if (status.ok()) endpoint.term.store(response.header().raft_term());
  if (value != nullptr && !response.kvs().empty()) *value = response.kvs(0).value();
  return status;
}

void Client::Parts::forget_token(const std::string& used) {
  const base::Mutex::Scoped lock{mutex};
  if (token == used) token.clear();
}

void Client::Parts::forget_token() {
  const base::Mutex::Scoped lock{mutex};
  token.clear();
}

// A call that changes nothing finds out what is wrong, and can't be mistaken for the failed one.
std::string Client::Parts::why_unreachable(std::chrono::milliseconds limit) {
  const std::shared_ptr<Endpoint> one = endpoint_at(current.load());
  grpc::ClientContext context;
  context.set_deadline(for_grpc(Clock::now() + limit));
  pb::StatusResponse response;
  const grpc::Status status = one->maintenance->Status(&context, {}, &response);
  if (status.ok()) return "retry (" + one->name + " answers again)";
  return advice(status, address.tls) + " (" + one->name + ": " + reason(status) + ")";
}

bool Client::Parts::try_again(Kind kind, const grpc::Status& status, const Endpoint& endpoint,
                              std::chrono::nanoseconds silent) {
  if (was_not_taken(status)) {
    if (!says(status, "too many requests")) leave(endpoint);
    return true;
  }
  if (!is_cut(status)) return false;
  if (status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED && silent >= silence) {
    give_up(endpoint);
  } else {
    leave(endpoint);
  }
  return kind != Kind::change;
}

// How many parts of the time limit a call has. After a silent part another endpoint is asked, or
// the same one over a new connection, or the outcome is resolved.
int Client::Parts::shares(Kind kind) const noexcept {
  const int all = std::max(static_cast<int>(address.endpoints.size()), 2);
  switch (kind) {
    case Kind::read: return all;
    case Kind::change: return 2;
    case Kind::renewal: break;
  }
  return 1;
}

void Client::Parts::call(Kind kind, std::chrono::milliseconds limit, const Call& rpc) {
  const Deadline deadline = Clock::now() + limit;
  const auto share = limit / shares(kind);
  bool new_token = false;
  base::Backoff backoff{first_pause, longest_pause};
  for (;;) {
    const std::shared_ptr<Endpoint> endpoint = connect(deadline);
    if (!endpoint) {
      const auto time = std::min<std::chrono::milliseconds>(explain_limit, limit / 2);
      throw StoreError("etcd at " + address.text() + " can't be reached: " + why_unreachable(time));
    }
    const Deadline asked = Clock::now();
    const Deadline until = std::min(deadline, Deadline{asked + share});
    grpc::ClientContext context;
    grpc::Status status;
    if (!prepare(*endpoint, context, until, status)) {
      if (!is_cut(status) || Clock::now() >= deadline) {
        throw_status(status, address, false);
      }
      static_cast<void>(try_again(kind, status, *endpoint, until - asked));
    } else {
      std::string used;
      {
        const base::Mutex::Scoped lock{mutex};
        used = token;
      }
      status = rpc(*endpoint, context, until);
      if (status.ok()) return;
      if (token_expired(status) && !address.user.empty() && !new_token) {
        new_token = true;
        forget_token(used);
        continue;
      }
      const bool again = try_again(kind, status, *endpoint, until - asked);
      if (!again || Clock::now() + backoff.limit() >= deadline) {
        throw_status(status, address,
                     kind == Kind::change && is_cut(status) && !was_not_taken(status));
      }
    }
    std::random_device random;
    std::this_thread::sleep_for(backoff.next(random));
  }
}

}  // namespace tenure::etcd
