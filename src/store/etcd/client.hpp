// client.hpp: calls to an etcd cluster: endpoints, TLS, tokens, and the meaning of errors. Only
// client.cpp and channel.cpp use gRPC.
//
//   problem                              | reaction
//   -------------------------------------+------------------------------------------------------
//   the endpoint can't be reached        | another endpoint, until `timeout`; nothing was sent
//   no leader, too many requests         | retry after a pause: the server did not accept it
//   the token has expired                | get a new one, retry
//   cut off, or no answer in time        | a read: retry elsewhere; a change: StoreError with
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

  // Visits what was put in [from, to) at etcd's revisions after `after`, up to `last`, in order;
  // something must have been put there at `last`. Returns false if the history was compacted. The
  // visitor returns false when it has seen enough; after a connection failure it sees everything
  // again.
  struct Period {
    std::string from;
    std::string to;
    std::int64_t after = 0;
    std::int64_t last = 0;
  };
  [[nodiscard]] bool history(const Period& period,
                             const std::function<bool(const pb::KeyValue&)>& visit);

  using Seconds = std::chrono::seconds;
  // Throws if there is such a lease already. Returns how long it lives: etcd has a minimum.
  [[nodiscard]] Seconds grant(std::int64_t lease, Seconds ttl);
  void revoke(std::int64_t lease);
  // Returns how long the lease lives from when the server received this; zero: there is no such
  // lease.
  //
  // A leader that was stopped or cut off may go on renewing for a moment after another member has
  // ended the lease, because it asks nobody. So `key`, which the user may read, is read after the
  // renewal, which asks a majority. The renewal counts if the term was the same before and after.
  struct Renewed {
    Seconds ttl;
    std::string value;  // Of `key`.
  };
  [[nodiscard]] Renewed keep_alive(std::int64_t lease, const std::string& key,
                                   std::chrono::milliseconds limit);

  struct Status {
    std::string endpoint;
    std::string version;  // Empty: the endpoint can't be reached, and `error` says why.
    std::int64_t database_size = 0;
    bool has_leader = false;
    std::string error;
  };
  // One for each endpoint.
  [[nodiscard]] std::vector<Status> status();

  // One stream, with any number of watches: each receives the changes of the keys in a range after
  // the response that says that it was created.
  class Changes {
   public:
    Changes();
    Changes(const Changes&) = delete;
    Changes& operator=(const Changes&) = delete;
    ~Changes();

    // False: the stream can't be opened now; error() says why. `probe`: a key to read first.
    [[nodiscard]] bool open(Client& client, const std::string& probe);
    // Blocks. False: the stream has ended; error() says why.
    [[nodiscard]] bool next(pb::WatchResponse& response);
    // From any thread, while another one reads. Without effect when the stream has ended. An id is
    // greater than zero, and never used twice on a stream.
    void watch(std::int64_t id, const std::string& from, const std::string& to);
    void unwatch(std::int64_t id);
    // From any thread: pending and later calls of open() and next() return false.
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
