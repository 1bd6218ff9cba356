// local_space.hpp: the space of one process: a lock table in 32 shards.
//
// A request for one path locks one shard, if nothing above depth 2 around the path is claimed: it
// appends the ticket, looks back and is done. Every other request locks all shards that its claims
// touch, in ascending order, and judges at once (lock_table.hpp).
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
#include <cstdint>
#include <span>
#include <vector>

#include "base/fork.hpp"
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
  void withdraw(detail::Waiter& waiter) noexcept override {
    if (!forked()) withdraw(*static_cast<Entry*>(waiter.grant.ticket));
  }
  bool release(const detail::Grant& grant) noexcept override;
  void drop(const detail::Grant& grant) noexcept override { LocalSpace::release(grant); }
  void release_then(const detail::Grant& grant, Released done) noexcept override {
    done(nullptr, LocalSpace::release(grant));
  }
  void downgrade(detail::Grant& grant, std::span<const Claim> claims) override;
  bool renew(detail::Grant& grant) override;
  [[nodiscard]] std::stop_token lost(const detail::Grant& grant) override;
  [[nodiscard]] std::vector<TicketInfo> inspect(const Path& path) override;
  bool evict(Token token, bool at_once) override;
  [[nodiscard]] detail::OwnerRef owner(const Owner& owner) override {
    check_process();
    return owners_.get(owner);
  }
  [[nodiscard]] detail::OwnerRef on_terms(const detail::OwnerRef& owner,
                                          const detail::Terms& terms) override;
  [[nodiscard]] std::vector<Guard> guard(const detail::Grant& grant) override;
  void close() noexcept override;
  void abandon() noexcept override;

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
    bool leaving = false;  // The space was abandoned; the last call that leaves it deletes it.
    [[nodiscard]] bool empty() const noexcept { return turns.empty() && !leaving; }
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

  // Requests: one claim under one lock, any claims under all of theirs.
  Fast request_one(const detail::Ask& ask, detail::Waiter* waiter,
                   detail::Grant& grant) TENURE_LOCKS_A_SET;
  bool request_all(const detail::Ask& ask, detail::Waiter* waiter, detail::Grant& grant);
  void begin(Entry& ticket, const detail::OwnerRef& owner, State state) noexcept;
  // `own`: the ticket that a downgrade changes. What it gives back does not count.
  void refuse_limit_clash(std::span<const Claim> claims, const detail::OwnerRef& owner,
                          const Entry* own = nullptr);
  void refuse_deadlock(std::uint64_t number);
  bool request_owned(const detail::Ask& ask, detail::Waiter& waiter);
  bool request_any(const detail::Ask& ask, detail::Waiter& waiter, detail::Grant& grant);

  // Leaving.
  static void count_out(Shard& shard, Aftermath& after) noexcept;
  bool release_thickened(Shard& shard, Node& node, std::uint64_t number, Aftermath& after) noexcept;
  bool release_ticket(Entry& ticket) noexcept;
  void release_lost(Entry& ticket, Aftermath& after) noexcept;
  void withdraw(Entry& ticket) noexcept TENURE_LOCKS_A_SET;
  void take_out_all(Entry& ticket, ShardSet held, Aftermath& after) noexcept;
  void free_rest(Entry& ticket) noexcept;
  void free_first(Entry& ticket, Aftermath& after) noexcept;
  void remove(Entry& ticket, ShardSet held, Aftermath& after) noexcept;
  void finish(Aftermath& after) noexcept;

  Entry& replace(Entry& old, std::span<const Claim> claims, ShardSet held, Aftermath& after);

  // Inspection. Require all locks.
  [[nodiscard]] static Claim claim_of(const Entry& entry);
  [[nodiscard]] static std::vector<Claim> claims_of(const Entry& ticket);
  [[nodiscard]] Snapshot snapshot();
  [[nodiscard]] Entry* find_ticket(Token token);

  const std::uint64_t fork_generation_ = base::fork_generation();
  LockTable table_;
  // After abandon(): live tickets, and calls that are leaving.
  std::atomic<std::size_t> remaining_ = 0;
  space::Owners owners_;
};

}  // namespace tenure::local
