// sessions.hpp: the sessions of a process: rows with a deadline on the server's clock.
//
//   alive --- renewed in time ---> alive --- not renewed until its deadline ---> dead, for good:
//     the first process that finds the deadline passed deletes the row; a renewal then fails
//
// A LeaseRenewer renews them, on a connection of its own.
//
// The server's clock is wall time. If it is set forward, sessions end early: a protected resource
// should check the token or the guard of a hold.
//
// Thread safety: all of it. stop() once.
#pragma once

#include <chrono>
#include <memory>
#include <string_view>

#include "store/common/lease_renewer.hpp"
#include "store/postgres/executor.hpp"
#include "tenure/store.hpp"

namespace tenure::postgres {

inline constexpr std::chrono::milliseconds default_ttl{10'000};
inline constexpr std::chrono::milliseconds min_ttl{500};
inline constexpr std::chrono::milliseconds max_ttl{86'400'000};

class Sessions {
 public:
  explicit Sessions(std::shared_ptr<Executor> executor);

  // Inserts a row for a new session, and renews it from now on.
  [[nodiscard]] std::shared_ptr<stores::Lease> open(std::chrono::milliseconds ttl);
  // Stops the renewals and deletes the row.
  void end(const std::shared_ptr<stores::Lease>& lease) noexcept;
  // How long the session lives without a renewal; zero or less: it is dead for good.
  [[nodiscard]] std::chrono::nanoseconds left(std::string_view id);
  void stop() { renewer_->stop(); }

 private:
  class Renewals;

  const std::shared_ptr<Executor> executor_;
  const Statement insert_;
  const Statement find_;
  const Statement bury_;
  const Statement end_;
  const std::shared_ptr<stores::LeaseRenewer> renewer_;
};

}  // namespace tenure::postgres
