// sharded_space.hpp: one space over several shards: every request goes to the home of its claims.
//
//   Space ─► ShardedSpace ─┬► Shard ─► StoredSpace ─► Store        a session per shard in use
//                          ├► Shard ─► …
//                          └► Shard    not used by this process: no session, no connection
//
// A request goes through the gate of its shard: its transaction has the guard that the map which
// is stored there is the one that chose the shard. So a process with an old map cannot append a
// ticket. It reads the map again and asks the right shard (at_home()); if another thread made the
// request meanwhile, its waiter gets ShardsChanged.
//
//   request, the caller waits                 the shard is opened on its thread, if need be
//   …, it must not wait for a server, and     that shard's space has the request at once
//      the shard is ready
//   …, and the shard is not ready             asking_: a thread of the shard prepares it, and then
//                                             gives the request to its space
//
// Invariants
//   1. A waiter is in asking_, or a shard's space has it, or its wait has ended. The hand-over is
//      made with `asking_mutex_` locked, so a cancellation finds it on one side.
//   2. The map only ever becomes one with a larger version.
//   3. A grant is the record of a StoredSpace, which knows its space (StoredSpace::of).
//
// The end: each StoredSpace keeps this alive (its `front`), and lives as long as what it holds.
// close() closes all of them. When the last Locker goes, a thread of its own joins the threads, and
// drops the shards.
//
// Thread safety: as detail::Backend.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "base/annotations.hpp"
#include "base/fork.hpp"
#include "base/mutex.hpp"
#include "space/runner.hpp"
#include "space/sharded/shard.hpp"
#include "space/sharded/shard_list.hpp"
#include "space/sharded/shard_map.hpp"
#include "space/stored/stored_space.hpp"
#include "tenure/detail/backend.hpp"

namespace tenure::sharded {

class ShardedSpace final : public detail::Backend,
                           public std::enable_shared_from_this<ShardedSpace> {
 public:
  // Reads the map from the first shard that answers. Throws StoreError if none does, Error if none
  // has a map.
  [[nodiscard]] static std::shared_ptr<detail::Backend> open(std::vector<ShardSource> sources,
                                                             const SessionOptions& options);
  ShardedSpace(const ShardedSpace&) = delete;
  ShardedSpace& operator=(const ShardedSpace&) = delete;

  detail::Grant request_free(const Claim& /*claim*/, const detail::OwnerRef& /*owner*/) override {
    return {};
  }
  bool request(const detail::Ask& ask, detail::Waiter& waiter) override;
  bool try_request(const detail::Ask& ask, detail::Grant& grant) override;
  bool try_in_background(const detail::Ask& ask, detail::Waiter& waiter) override;
  [[nodiscard]] bool available(const detail::Ask& ask) override;
  void withdraw(detail::Waiter& waiter) noexcept override;
  [[nodiscard]] std::optional<bool> attach(Token token, const Path& path,
                                           detail::Waiter& waiter) override;

  bool release(const detail::Grant& grant) override { return of(grant).release(grant); }
  void drop(const detail::Grant& grant) noexcept override { of(grant).drop(grant); }
  void release_then(const detail::Grant& grant, Released done) noexcept override {
    of(grant).release_then(grant, std::move(done));
  }
  void downgrade(detail::Grant& grant, std::span<const Claim> claims) override {
    of(grant).downgrade(grant, claims);
  }
  bool release_with(const detail::Grant& grant, const TxnPart& part) override {
    return of(grant).release_with(grant, part);
  }
  void release_with_then(const detail::Grant& grant, TxnPart part,
                         Released done) noexcept override {
    of(grant).release_with_then(grant, std::move(part), std::move(done));
  }
  void downgrade_with(detail::Grant& grant, std::span<const Claim> claims,
                      const TxnPart& part) override {
    of(grant).downgrade_with(grant, claims, part);
  }
  bool renew(detail::Grant& grant, std::chrono::nanoseconds max_hold) override {
    return of(grant).renew(grant, max_hold);
  }
  [[nodiscard]] std::vector<Claim> claims(const detail::Grant& grant) override {
    return of(grant).claims(grant);
  }
  [[nodiscard]] std::optional<Instant> deadline(const detail::Grant& grant) override {
    return of(grant).deadline(grant);
  }
  [[nodiscard]] std::vector<Guard> guard(const detail::Grant& grant) override {
    return of(grant).guard(grant);
  }
  [[nodiscard]] std::stop_token lost(const detail::Grant& grant) override {
    return of(grant).lost(grant);
  }
  [[nodiscard]] std::stop_token asked_to_leave(const detail::Grant& grant) override {
    return of(grant).asked_to_leave(grant);
  }
  void detach(const detail::Grant& grant) override { of(grant).detach(grant); }

  [[nodiscard]] std::stop_token session_lost() override;
  [[nodiscard]] std::vector<TicketInfo> inspect(const Path& path) override;
  [[nodiscard]] std::unique_ptr<detail::TicketWatch> watch(const Path& path,
                                                           std::function<void()> changed) override;
  bool evict(Token token, bool at_once) override;
  std::size_t evict_below(const Path& path, bool at_once) override;
  bool ask_to_leave(Token token) override;
  std::size_t set_limit(const Claim& limit) override;
  [[nodiscard]] detail::OwnerRef owner(const Owner& owner) override {
    return stored::StoredSpace::new_owner(owner);
  }
  [[nodiscard]] detail::OwnerRef on_terms(const detail::OwnerRef& owner,
                                          const detail::Terms& terms) override {
    return stored::StoredSpace::new_terms(owner, terms);
  }
  // That of the only shard in use; -1 if there are several.
  [[nodiscard]] int descriptor() const noexcept override;
  void close() noexcept override;
  void abandon() noexcept override;

  using Home = std::shared_ptr<const Shard::Parts>;
  // For programs that wait for one path: its shard, opened.
  [[nodiscard]] Home home(const Path& path);
  // What one shard says, or why it says nothing.
  struct Said {
    std::string shard;
    Home home;  // Null: it cannot be used.
    std::vector<TicketInfo> tickets;
    std::string fault;
  };
  // Of the home of the path, or of all shards for `/`: asked at the same time, in order of name.
  // Throws StoreError if the one shard does not answer.
  [[nodiscard]] std::vector<Said> ask_shards(const Path& path);

 private:
  struct Asking;  // A request that waits until its shard is ready.
  using Choose = std::function<Shard&(const ShardMap& map)>;

  ShardedSpace(std::vector<ShardSource> sources, SessionOptions options);
  ~ShardedSpace() override;
  static stored::StoredSpace& of(const detail::Grant& grant) noexcept {
    return stored::StoredSpace::of(grant);
  }
  void check_process() const;
  void read_first_map();
  [[nodiscard]] std::shared_ptr<stored::StoredSpace> make_space(
      const std::shared_ptr<Store>& store);

  // The map, and who has what.
  [[nodiscard]] std::shared_ptr<const ShardMap> map();
  void adopt(const Shard& shard, const ShardMap& seen);
  [[nodiscard]] Shard& find(const std::string& name) const;
  [[nodiscard]] Shard& route(const ShardMap& map, std::span<const Claim> claims) const;
  [[nodiscard]] Home ready_home(std::span<const Claim> claims);
  [[nodiscard]] Home prepare_home(const Choose& choose, bool fresh);
  [[nodiscard]] Home prepare_home(std::span<const Claim> claims);
  template <class Call>
  auto at_home(std::span<const Claim> claims, const Call& call);
  [[nodiscard]] std::optional<Said> find_ticket(Token token);

  // Requests of callers that must not wait.
  void ask_in_background(const detail::Ask& ask, detail::Waiter& waiter, bool only_try);
  void ask_for_waiter(const std::shared_ptr<Asking>& asking) noexcept;
  void hand_over(const std::shared_ptr<Asking>& asking, const Home& home,
                 std::exception_ptr error) noexcept;
  void tell(detail::Waiter& waiter, detail::WaitOutcome outcome) noexcept;
  void end() noexcept;

  const std::uint64_t fork_generation_ = base::fork_generation();
  const SessionOptions options_;
  std::map<std::string, std::unique_ptr<Shard>, std::less<>> shards_;  // Constant.
  base::Mutex mutex_;
  std::shared_ptr<const ShardMap> map_ TENURE_GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<std::stop_callback<std::function<void()>>>> on_lost_
      TENURE_GUARDED_BY(mutex_);
  std::stop_source lost_;  // Of session_lost().
  base::Mutex asking_mutex_;
  std::map<const detail::Waiter*, std::shared_ptr<Asking>> asking_ TENURE_GUARDED_BY(asking_mutex_);
  bool closed_ TENURE_GUARDED_BY(asking_mutex_) = false;
  std::unique_ptr<space::Runner> runner_ = std::make_unique<space::Runner>();
};

}  // namespace tenure::sharded
