// orders.hpp: what this process knows of each order of a store: the newest numbers, whether other
// clients write in it, and what is known as long as nobody else does.
//
// Thread safety: all of it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>

#include "base/annotations.hpp"
#include "base/mutex.hpp"
#include "store/etcd/layout.hpp"
#include "store/etcd/numbers.hpp"
#include "store/etcd/scope.hpp"
#include "tenure/store.hpp"

namespace tenure::etcd {

// How much other clients write at the same time, as far as the applies of this process have
// noticed.
class Contention {
 public:
  static constexpr std::size_t max_reach = 64;

  // Other clients write at the same time, or did so during the last 64 commits.
  [[nodiscard]] bool racing() const noexcept { return race_.load() > 0; }
  // By how many heads other clients get ahead during one round trip.
  [[nodiscard]] std::size_t reach() const noexcept { return reach_.load(); }

  void was_outrun() noexcept;
  // `ahead`: the distance of the committed head from the first proposed one.
  void committed(std::uint64_t ahead) noexcept;

 private:
  void adapt_reach(unsigned ahead) noexcept;

  std::atomic<int> race_{0};  // Commits until the race is forgotten.
  std::atomic<unsigned> reach_{8};
};

struct Order {
  Contention contention;
  SoleWriter sole_writer;
};

class Orders {
 public:
  // Lives as long as this object.
  [[nodiscard]] Order& operator[](OrderId id);

  // A slot larger than `now` or equal, and larger than any that this process proposed or saw in one
  // of the orders. No other call returns the same for any of them.
  [[nodiscard]] std::uint64_t propose(const Scope& scope, std::uint64_t now);
  // The first slot after the largest one that this process saw there.
  [[nodiscard]] std::uint64_t next(const Scope& scope) const;
  void see(OrderId id, Revision head);

  // How many slots the clock passes during one round trip.
  [[nodiscard]] std::uint64_t heads_per_round_trip() const noexcept;
  void took(std::int64_t round_trip_ns) noexcept;

  // A commit of this process moved the head of one order.
  void moved(OrderId id, const SoleWriter::Commit& commit);
  // Heads were moved, or may have been, that the sole writers of these orders do not know.
  void forget(const Scope& scope);

 private:
  static constexpr std::size_t max_owned = 256;  // Of sole writers that know something.
  struct State : Order {
    std::uint64_t newest = 0;  // The largest slot that was proposed or seen,
    std::uint64_t seen = 0;    // or seen.
    bool owned = false;
  };
  template <typename Visit>
  void visit(const Scope& scope, const Visit& visit) const TENURE_REQUIRES(mutex_);

  std::atomic<std::uint64_t> round_trip_us_{500};
  mutable base::Mutex mutex_;
  std::map<OrderId, State> orders_ TENURE_GUARDED_BY(mutex_);
  std::deque<OrderId> owned_ TENURE_GUARDED_BY(mutex_);
};

}  // namespace tenure::etcd
