// memory_store.hpp: a store in this process's memory: "memory:". For tests and simulations: its
// clock can be moved by hand, its sessions killed, its applies failed and its notices held back.
//
//   auto store = std::make_shared<MemoryStore>(MemoryStore::Clock::virtual_time);
//   auto watch = store->watch({.until = store->now() + 10s}, [&] { ring(); });
//   store->advance(10s);
//   store->settle();  // ring() has run.
//
// Invariants, beside those of every store
//   1. With a virtual clock nothing depends on the time of day: the same calls, each followed by
//      settle(), have the same outcomes, revisions and session ids.
//   2. Posts and notices run on one thread of the store's, which starts with the first of them.
//      Posts come first; an apply that finds some makes them itself. apply_then() has its own.
//   3. A single-key watch fires for that key only, while its `after` is among the last
//      `remembered_changes`; an older one may fire for no reason.
//
// Thread safety: as every store. A watch and a session may outlive the store: no notice comes after
// it has gone. Not for use across fork.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "tenure/store.hpp"

namespace tenure {

namespace stores {
class PostQueue;
}

class MemoryStore final : public Store {
 public:
  enum class Clock : std::uint8_t {
    real,          // Runs by itself, near wall time.
    virtual_time,  // Stands at virtual_start until advance().
  };
  enum class Fault : std::uint8_t {
    before,  // The apply fails, and nothing happened.
    after,   // It is made, but its caller is not told: StoreError::unknown().
  };
  static constexpr Instant virtual_start{
      std::chrono::sys_days{std::chrono::year{2000} / std::chrono::January / 1}};
  static constexpr std::size_t remembered_changes = 4096;

  explicit MemoryStore(Clock clock = Clock::real);
  MemoryStore(const MemoryStore&) = delete;
  MemoryStore& operator=(const MemoryStore&) = delete;
  // Makes what was posted; waits for a running notice, unless it is called by that.
  ~MemoryStore() override;

  Outcome apply(const Txn& txn) override;
  void post(Txn txn, Posted done) noexcept override;
  void apply_then(Txn txn, Posted done) noexcept override;
  void flush() override;
  [[nodiscard]] std::unique_ptr<Watch> watch(WatchFor what, Notice notice) override;
  [[nodiscard]] std::unique_ptr<Session> open_session(const SessionOptions& options) override;
  [[nodiscard]] bool alive(std::string_view session) override;
  [[nodiscard]] Instant now() override;
  [[nodiscard]] Instant latest_now() noexcept override;
  [[nodiscard]] std::vector<Fact> facts() override;

  // Moves the virtual clock, and returns before the notices of what is now due. Throws BadRequest
  // where the clock is real or would go back.
  void advance(std::chrono::nanoseconds by);
  // Returns when nothing is left to do for the store's threads: posts are made, notices that are
  // due and not held back have run, lost() has fired. Throws BadRequest on one of those threads.
  void settle();

  // As if its process had died: it is told nothing, and its entry stays.
  void kill_session(std::string_view id);
  // The store gives it up: lost() fires, on a thread of its own, and the entry stays until the
  // session ends.
  void lose_session(std::string_view id);

  // The next `count` applies and posts fail; calls add up, in order. Sessions are not affected.
  void fail_next(std::size_t count, Fault fault);
  // While true no notice runs; when false again, those that became due do.
  void hold_notices(bool hold);
  // Runs at the start of each apply and post, on its thread, with no lock held: it may apply (and
  // is then called for that one, too), wait, or throw what the apply is to throw. Null: none.
  void before_apply(std::function<void(const Txn&)> hook);

 private:
  struct State;
  class OneWatch;
  class OneSession;
  std::shared_ptr<State> state_;
  std::shared_ptr<stores::PostQueue> durable_queue_;
};

}  // namespace tenure
