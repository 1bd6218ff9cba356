// local_space.hpp: the space of one process: a lock table in 32 shards.
//
// A request for one path locks one shard, if nothing above depth 2 around the path is claimed: it
// appends the ticket, looks back and is done. A request for several paths that are all free locks
// the shard of each. Every other request locks all shards that its claims touch, in ascending
// order, and judges at once (lock_table.hpp).
//
// Invariants
//   1. A ticket is judged only with all shards locked that its claims touch.
//   2. No lock is held while a waiter is notified. Shards are locked in ascending order, or with
//      try_lock.
//   3. The outcome of a wait is decided once (Waiter::decide): a grant and a cancellation can't
//      both win.
//   4. A forked child locks none of its parent's locks, which may stay locked for ever: in the
//      child, releasing and destroying has no effect, and requests throw.
//
// Memory ordering: shard locks guard everything except Entry::state, Entry::phase, Node::live_here
// and LockTable::root_wide_. phase is stored with release order by the thread that changes it, and
// loaded with acquire order by the thread that cancels; state of a waiting ticket is a hint. The
// other two are raised with the locks of all shards held that may read them. They are lowered with
// one lock held, so that store is a release and the load an acquire.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <vector>

#include "base/annotations.hpp"
#include "base/fork.hpp"
#include "base/mutex.hpp"
#include "space/local/deadlines.hpp"
#include "space/local/lock_table.hpp"
#include "space/local/records.hpp"
#include "space/local/shard.hpp"
#include "space/owners.hpp"
#include "tenure/detail/backend.hpp"

namespace tenure::local {

class LocalSpace final : public detail::Backend {
 public:
  LocalSpace() = default;
  LocalSpace(const LocalSpace&) = delete;
  LocalSpace& operator=(const LocalSpace&) = delete;

  detail::Grant request_free(const Claim& claim, const detail::OwnerRef& owner) override;
  bool request(const detail::Ask& ask, detail::Waiter& waiter) override;
  bool try_request(const detail::Ask& ask, detail::Grant& grant) override;
  [[nodiscard]] bool available(const detail::Ask& ask) override;
  void withdraw(detail::Waiter& waiter) noexcept override {
    if (!forked()) withdraw(*static_cast<Entry*>(waiter.grant.ticket));
  }
  bool release(const detail::Grant& grant) noexcept override;
  void drop(const detail::Grant& grant) noexcept override { LocalSpace::release(grant); }
  void release_then(const detail::Grant& grant, Released done) noexcept override {
    done(nullptr, LocalSpace::release(grant));
  }
  void downgrade(detail::Grant& grant, std::span<const Claim> claims) override;
  bool renew(detail::Grant& grant, std::chrono::nanoseconds max_hold) override;
  [[nodiscard]] std::optional<Instant> deadline(const detail::Grant& grant) override;
  [[nodiscard]] std::vector<Claim> claims(const detail::Grant& grant) override;
  [[nodiscard]] std::stop_token lost(const detail::Grant& grant) override;
  [[nodiscard]] std::stop_token asked_to_leave(const detail::Grant& grant) override;
  [[nodiscard]] std::vector<TicketInfo> inspect(const Path& path) override;
  [[nodiscard]] std::unique_ptr<detail::TicketWatch> watch(const Path& path,
                                                           std::function<void()> changed) override;
  bool evict(Token token, bool at_once) override;
  std::size_t evict_below(const Path& path, bool at_once) override;
  bool ask_to_leave(Token token) override;
  std::size_t set_limit(const Claim& limit) override;
  [[nodiscard]] detail::OwnerRef owner(const Owner& owner) override {
    check_process();
    return owners_.get(owner);
  }
  [[nodiscard]] detail::OwnerRef on_terms(const detail::OwnerRef& owner,
                                          const detail::Terms& terms) override;
  [[nodiscard]] std::vector<Guard> guard(const detail::Grant& grant) override;
  void close() noexcept override;
  void abandon() noexcept override;
  // Ends the waits that came through `front` (named_space.hpp), which lets no more through.
  void close_waits_of(const detail::Backend* front) noexcept;

 private:
  ~LocalSpace() override = default;

  [[nodiscard]] bool forked() const noexcept { return base::forked_since(fork_generation_); }
  void check_process() const {
    if (forked()) [[unlikely]]
      throw_forked();
  }
  [[noreturn]] static void throw_forked();

  // Work that a call finishes after it has unlocked.
  struct Aftermath {
    LockTable::Turns turns;
    // Bit 0: the space was abandoned; the last call that leaves it deletes it. The rest, if not 0:
    // those who follow the tickets must hear of it, and until they have, the call counts as a
    // ticket of this shard, plus 1. In one byte: a release of a free lock tests it.
    std::uint8_t ends = 0;
    [[nodiscard]] bool leaving() const noexcept { return (ends & 1U) != 0; }
    [[nodiscard]] std::uint8_t observed() const noexcept { return ends >> 1U; }
    [[nodiscard]] bool empty() const noexcept { return turns.empty() && ends == 0; }
  };
  struct Snapshot {
    std::vector<Ticket> tickets;
    std::vector<Entry*> entries;  // The first entry of each.
  };
  enum class Fast : std::uint8_t { granted, blocked, impossible };

  // The record of a Hold is its ticket's first entry or, if it was thin at first, its node (with
  // the low bit set).
  static detail::Grant thin_grant(Node& node, std::uint64_t number) noexcept {
    return {.ticket = reinterpret_cast<std::byte*>(&node) + 1, .token = Token{number}};
  }
  static Node* thin_node(const detail::Grant& grant) noexcept {
    auto* const record = static_cast<std::byte*>(grant.ticket);
    const bool thin = (reinterpret_cast<std::uintptr_t>(record) & 1U) != 0;
    return thin ? reinterpret_cast<Node*>(record - 1) : nullptr;
  }

  // Keeps the space alive as a ticket does.
  class Stay {
   public:
    explicit Stay(LocalSpace& space) noexcept;
    Stay(const Stay&) = delete;
    Stay& operator=(const Stay&) = delete;
    ~Stay();

   private:
    LocalSpace& space_;
  };

  // One that follows the tickets, shared with the space.
  struct Follower {
    base::Mutex mutex;  // While `changed` is called; no other is locked then.
    std::function<void()> changed TENURE_GUARDED_BY(mutex);
    void call();
  };
  class Following;
  using Followers = std::vector<std::shared_ptr<Follower>>;
  [[nodiscard]] Followers followers();
  static void tell(const Followers& followers);

  // Requests: one claim under one lock, any claims under all of theirs.
  Fast request_one(const detail::Ask& ask, detail::Waiter* waiter,
                   detail::Grant& grant) TENURE_LOCKS_A_SET;
  bool request_bundle(const detail::Ask& ask, detail::Grant& grant);
  bool request_all(const detail::Ask& ask, detail::Waiter* waiter, detail::Grant& grant);
  void begin(Entry& ticket, const detail::OwnerRef& owner, State state) noexcept;
  // `own`: the ticket that a downgrade changes. What it gives back does not count.
  void refuse_limit_clash(std::span<const Claim> claims, const detail::OwnerRef& owner,
                          const Entry* own = nullptr);
  void refuse_deadlock(std::uint64_t number);
  bool request_owned(const detail::Ask& ask, detail::Waiter& waiter);
  bool request_followed(const detail::Ask& ask, detail::Waiter& waiter);
  bool request_unfollowed(const detail::Ask& ask, detail::Waiter& waiter);
  void start_deadline(Entry& ticket);
  // Of a hold: its entry, which the Hold knows from now on. Requires all locks. Throws Evicted.
  Entry& upgradable(detail::Grant& held);
  bool request_upgrade(const detail::Ask& ask, detail::Waiter* waiter, detail::Grant& grant);
  bool append_upgrade(const detail::Ask& ask, detail::Waiter* waiter, detail::Grant& grant);
  bool request_any(const detail::Ask& ask, detail::Waiter& waiter, detail::Grant& grant);

  // Leaving.
  static void count_out(Shard& shard, Aftermath& after) noexcept;
  void tell_later(std::uint8_t shard, Aftermath& after) noexcept;
  void tell_followers(std::uint8_t shard) noexcept;
  bool release_slowly(Node& node, std::uint64_t number) noexcept;
  bool release_thickened(Shard& shard, Node& node, std::uint64_t number, Aftermath& after) noexcept;
  bool release_ticket(Entry& ticket) noexcept;
  void release_lost(Entry& ticket, Aftermath& after) noexcept;
  void withdraw(Entry& ticket) noexcept TENURE_LOCKS_A_SET;
  void take_out_all(Entry& ticket, ShardSet held, Aftermath& after) noexcept;
  void free_rest(Entry& ticket) noexcept;
  void free_first(Entry& ticket, Aftermath& after) noexcept;
  void remove(Entry& ticket, ShardSet held, Aftermath& after) noexcept;
  void finish(Aftermath& after) noexcept;
  // A ticket that is being evicted: its outcome is decided, or its state is `evicting`.
  struct Eviction {
    Entry* ticket;
    bool waits;
    std::optional<std::stop_source> lost;
  };
  // Requires all locks. Null: it has ended, or is ending, otherwise.
  static std::optional<Eviction> begin_eviction(Entry& ticket);
  void end_hold(const Eviction& eviction) noexcept;
  std::size_t evict_all(const std::vector<Eviction>& evictions) noexcept;
  void end_waits_if(bool all, const detail::Backend* front) noexcept;
  // Of deadlines.
  void tell_lost(std::uint64_t number) noexcept;
  // The entry of a hold, which it gets if it was thin; null: it was evicted. Requires the lock.
  [[nodiscard]] static Entry* entry_of(Shard& shard, const detail::Grant& grant);
  [[nodiscard]] Shard& shard_of_hold(const detail::Grant& grant);

  Entry& replace(Entry& old, std::span<const Claim> claims, ShardSet held, Aftermath& after);

  // Inspection. Require all locks.
  [[nodiscard]] static Claim claim_of(const Entry& entry);
  [[nodiscard]] static std::vector<Claim> claims_of(const Entry& ticket);
  [[nodiscard]] static std::uint64_t kept_of(const Entry& ticket);
  [[nodiscard]] Snapshot snapshot();
  [[nodiscard]] Entry* find_ticket(Token token);

  const std::uint64_t fork_generation_ = base::fork_generation();
  LockTable table_;
  // After abandon(): live tickets, and calls that are leaving.
  std::atomic<std::size_t> remaining_ = 0;
  space::Owners owners_;
  base::Mutex followers_mutex_;
  Followers followers_ TENURE_GUARDED_BY(followers_mutex_);
  std::atomic<bool> followed_ = false;
  Deadlines deadlines_{[this](std::uint64_t number) { tell_lost(number); },
                       [this](std::uint64_t number) { LocalSpace::evict(Token{number}, true); }};
};

}  // namespace tenure::local
