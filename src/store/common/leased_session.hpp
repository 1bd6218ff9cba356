// leased_session.hpp: a session of a store on a server, alive as long as its lease.
//
// Thread safety: as Session.
#pragma once

#include <memory>
#include <stop_token>
#include <string>
#include <tuple>
#include <utility>

#include "store/common/lease_renewer.hpp"
#include "tenure/store.hpp"

namespace tenure::stores {

// `Server` is a QueuedStore. Derived sessions end the lease and remove the entry in their
// destructors.
template <typename Server>
class LeasedSession : public Session {
 public:
  LeasedSession(std::shared_ptr<Server> store, std::shared_ptr<Lease> lease)
      : store_(std::move(store)), lease_(std::move(lease)) {}
  LeasedSession(const LeasedSession&) = delete;
  LeasedSession& operator=(const LeasedSession&) = delete;
  ~LeasedSession() override = default;

  [[nodiscard]] const std::string& id() const noexcept final { return lease_->session; }
  // Ids are never reused, so an entry that exists is unchanged.
  [[nodiscard]] Guard guard() const final { return Guard::present(key()); }
  // Reads the clock first: a process that was stopped for long must not believe an old answer.
  [[nodiscard]] std::stop_token lost() const final {
    if (!store_->forked()) std::ignore = lease_->check();
    return lease_->lost.get_token();
  }
  [[nodiscard]] std::string key() const { return std::string{session_prefix} + id(); }

 protected:
  const std::shared_ptr<Server> store_;
  const std::shared_ptr<Lease> lease_;
};

}  // namespace tenure::stores
