// named_space.hpp: "local:NAME": one local space that all have who open that name in the process.
//
//   Space ─► NamedSpace ─┐
//   Space ─► NamedSpace ─┴► LocalSpace     found by its name while one of them lives
//
// Closing one Space ends its own waits only. A NamedSpace lives as long as its Lockers, and as its
// tickets, waiting or held.
//
// Thread safety: as detail::Backend.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <shared_mutex>
#include <span>
#include <stop_token>
#include <string_view>
#include <vector>

#include "space/local/local_space.hpp"
#include "tenure/detail/backend.hpp"

namespace tenure::local {

class NamedSpace final : public detail::Backend {
 public:
  static constexpr std::size_t max_name = 256;

  // Throws Error for a name that is too long.
  explicit NamedSpace(std::string_view name);
  NamedSpace(const NamedSpace&) = delete;
  NamedSpace& operator=(const NamedSpace&) = delete;

  detail::Grant request_free(const Claim& claim, const detail::OwnerRef& owner) override;
  bool request(const detail::Ask& ask, detail::Waiter& waiter) override;
  bool try_request(const detail::Ask& ask, detail::Grant& grant) override;
  [[nodiscard]] bool available(const detail::Ask& ask) override;
  void withdraw(detail::Waiter& waiter) noexcept override;
  void wait_ended() noexcept override { leave(); }
  bool release(const detail::Grant& grant) override;
  void drop(const detail::Grant& grant) noexcept override;
  void release_then(const detail::Grant& grant, Released done) noexcept override;
  void downgrade(detail::Grant& grant, std::span<const Claim> claims) override {
    space_->downgrade(grant, claims);
  }
  bool renew(detail::Grant& grant, std::chrono::nanoseconds max_hold) override {
    return space_->renew(grant, max_hold);
  }
  [[nodiscard]] std::optional<Instant> deadline(const detail::Grant& grant) override {
    return space_->deadline(grant);
  }
  [[nodiscard]] std::vector<Claim> claims(const detail::Grant& grant) override {
    return space_->claims(grant);
  }
  [[nodiscard]] std::stop_token lost(const detail::Grant& grant) override {
    return space_->lost(grant);
  }
  [[nodiscard]] std::stop_token asked_to_leave(const detail::Grant& grant) override {
    return space_->asked_to_leave(grant);
  }
  [[nodiscard]] std::vector<TicketInfo> inspect(const Path& path) override {
    return space_->inspect(path);
  }
  [[nodiscard]] std::unique_ptr<detail::TicketWatch> watch(const Path& path,
                                                           std::function<void()> changed) override;
  bool evict(Token token, bool at_once) override { return space_->evict(token, at_once); }
  std::size_t evict_below(const Path& path, bool at_once) override {
    return space_->evict_below(path, at_once);
  }
  bool ask_to_leave(Token token) override { return space_->ask_to_leave(token); }
  std::size_t set_limit(const Claim& limit) override { return space_->set_limit(limit); }
  [[nodiscard]] detail::OwnerRef owner(const Owner& owner) override { return space_->owner(owner); }
  [[nodiscard]] detail::OwnerRef on_terms(const detail::OwnerRef& owner,
                                          const detail::Terms& terms) override {
    return space_->on_terms(owner, terms);
  }
  [[nodiscard]] std::vector<Guard> guard(const detail::Grant& grant) override {
    return space_->guard(grant);
  }
  [[nodiscard]] detail::Flights& flights() noexcept override { return space_->flights(); }
  void close() noexcept override;
  void abandon() noexcept override;

 private:
  ~NamedSpace() override = default;
  void check_open() const;
  void enter() noexcept { users_.fetch_add(1, std::memory_order_relaxed); }
  void leave() noexcept {
    if (users_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
  }

  const std::shared_ptr<LocalSpace> space_;
  std::atomic<std::size_t> users_ = 1;  // The Lockers together, tickets, and calls under way.
  // A request that may have to wait is queued before close() ends the waits, or refused.
  std::shared_mutex closing_;
  std::atomic<bool> closed_ = false;
};

}  // namespace tenure::local
