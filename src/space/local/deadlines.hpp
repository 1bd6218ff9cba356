// deadlines.hpp: until when tickets of a local space are held at most.
//
//   started ── a third of the time before its deadline, at most 1 s ──► told ── deadline ──► over
//      ▲                                                                  │
//      └────────────────────────── renew() ◄──────────────────────────────┘
//
// A thread counts down, and starts with the first deadline. It never waits: what is due runs on
// threads of its own, because lost() calls code of the program.
//
// Mutex: may be locked with shard locks held, and locks none of them.
//
// Thread safety: all calls. It may be destroyed by what is due.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <unordered_map>

#include "base/annotations.hpp"
#include "base/mutex.hpp"
#include "base/thread_group.hpp"
#include "space/timers.hpp"
#include "tenure/store.hpp"

namespace tenure::local {

class Deadlines {
 public:
  using Due = std::function<void(std::uint64_t ticket)>;

  // `tell`: lost() must fire; call is_due() once more first. `end`: the ticket must end. Neither
  // may throw.
  Deadlines(Due tell, Due end);
  Deadlines(const Deadlines&) = delete;
  Deadlines& operator=(const Deadlines&) = delete;
  ~Deadlines() = default;

  // Starts the thread. Throws std::system_error if there can be none.
  void prepare();
  void start(std::uint64_t ticket, std::chrono::nanoseconds max_hold);
  // Zero: the same time as before. False: it had a deadline that has passed.
  bool renew(std::uint64_t ticket, std::chrono::nanoseconds max_hold);
  void cancel(std::uint64_t ticket) noexcept;
  [[nodiscard]] bool is_due(std::uint64_t ticket);
  // By the wall clock.
  [[nodiscard]] std::optional<Instant> at(std::uint64_t ticket);

 private:
  struct Deadline {
    Instant at;  // By the clock of the timers.
    std::chrono::nanoseconds max_hold{0};
    bool told = false;
    [[nodiscard]] Instant tell_at() const;
  };
  void set_timer(std::uint64_t ticket, Instant at);
  void on_timer(std::uint64_t ticket);

  const Due tell_;
  const Due end_;
  base::Mutex mutex_;
  std::unordered_map<std::uint64_t, Deadline> deadlines_ TENURE_GUARDED_BY(mutex_);
  base::ThreadGroup callers_;
  space::Timers timers_;  // Last: its calls use the above.
};

}  // namespace tenure::local
