// client.hpp: calls to an etcd cluster: one of several endpoints, TLS, a user's token, and what its
// errors mean. The only room that knows gRPC is behind this (client.cpp, channel.cpp).
//
//   what a call meets                    | what becomes of it
//   -------------------------------------+------------------------------------------------------
//   an endpoint that can't be reached    | another that can, until `timeout`; nothing was sent
//   no leader, too many requests         | again, after a pause: the server did not take it
//   a token that has expired             | a new one, and again
//   cut off, or no answer in time        | a read: again, elsewhere; a change: StoreError with
//                                        | unknown(). No answer: the connection is given up, and
//                                        | the endpoint avoided for a while
//   too large, too many operations       | BadRequest
//   anything else                        | StoreError
//
// Thread safety: all calls, from any thread, at once.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "store/etcd/address.hpp"

namespace etcdserverpb {
class Event;
class KeyValue;
class RangeRequest;
class RangeResponse;
class TxnRequest;
class TxnResponse;
class WatchResponse;
}  // namespace etcdserverpb

namespace tenure::etcd {

namespace pb = ::etcdserverpb;

class Client {
 public:
  explicit Client(Address address);
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;
  ~Client();

  [[nodiscard]] const Address& address() const noexcept;

  void range(const pb::RangeRequest& request, pb::RangeResponse& response);
  // `changes`: whether it may write.
  void txn(const pb::TxnRequest& request, pb::TxnResponse& response, bool changes);

  // What was put in [from, to) at etcd's revisions behind `after` up to `last`, in order; something
  // must have been put there at `last`. False: that is not known any more. A visitor that returns
  // false has seen enough; where the connection fails, it sees all again.
  struct Period {
    std::string from;
    std::string to;
    std::int64_t after = 0;
    std::int64_t last = 0;
  };
  [[nodiscard]] bool history(const Period& period,
                             const std::function<bool(const pb::KeyValue&)>& visit);

  using Seconds = std::chrono::seconds;
  // Throws where there is such a lease already. Returns how long it lives: etcd has a minimum.
  [[nodiscard]] Seconds grant(std::int64_t lease, Seconds ttl);
  void revoke(std::int64_t lease);
  // How long it lives from when the server got this. Zero: there is no such lease.
  //
  // A leader that was stopped or cut off goes on renewing for a moment, when another may have ended
  // the lease: it asks nobody. So `key`, one that the user may read, is read behind it, which asks
  // a majority; a renewal counts if the term was the same before and after.
  [[nodiscard]] Seconds keep_alive(std::int64_t lease, const std::string& key,
                                   std::chrono::milliseconds limit);

  struct Status {
    std::string endpoint;
    std::string version;  // Empty: it can't be reached, and `error` says why.
    std::int64_t database_size = 0;
    bool has_leader = false;
    std::string error;
  };
  // Of every endpoint.
  [[nodiscard]] std::vector<Status> status();

  // All changes of keys in [from, to) from when open() has returned.
  class Changes {
   public:
    Changes();
    Changes(const Changes&) = delete;
    Changes& operator=(const Changes&) = delete;
    ~Changes();

    // False: it can't be had now; error() says why.
    [[nodiscard]] bool open(Client& client, const std::string& from, const std::string& to);
    // Waits. False: it has ended; error() says why.
    [[nodiscard]] bool next(pb::WatchResponse& response);
    // From any thread: open() and next() return false soon, now and later.
    void cancel();
    [[nodiscard]] const std::string& error() const noexcept;

   private:
    struct Stream;
    const std::unique_ptr<Stream> stream_;
  };

 private:
  struct Parts;
  const std::unique_ptr<Parts> parts_;
};

}  // namespace tenure::etcd
