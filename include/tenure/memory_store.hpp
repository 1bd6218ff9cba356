// memory_store.hpp: a store in the memory of this process: "memory:". For tests and simulations: a
// test can advance its clock, kill its sessions, make applies fail and hold back notices.
//
//   auto store = std::make_shared<MemoryStore>(MemoryStore::Clock::virtual_time);
//   auto watch = store->watch({.until = store->now() + 10s}, [&] { ring(); });
//   store->advance(10s);
//   store->settle();  // ring() has run.
//
// Invariants, in addition to those of every store
//   1. With a virtual clock nothing depends on the time of day: the same calls, each followed by
//      settle(), have the same outcomes, revisions and session ids.
//   2. Posts and notices run on one thread of the store, which starts with the first of them. Posts
//      come first; an apply makes pending posts itself. apply_then() has its own thread.
//   3. A watch of one key fires only for that key, as long as its `after` is among the last
//      `remembered_changes`; an older watch may fire without a reason.
//
// Thread safety: as every store. A watch and a session may outlive the store; no notice is called
// after the store is destroyed. Not for use across fork().
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
    virtual_time,  // Stays at virtual_start until advance().
  };
  enum class Order : std::uint8_t {
    one,      // A revision is larger than all before it.
    by_root,  // Only than those of the same root (the first segment of a path): what a store may
              // do at most, to test that nothing relies on more. "memory:by-root" as a URL.
  };
  enum class Fault : std::uint8_t {
    before,  // The apply fails, and nothing was written.
    after,   // The apply is made, but its caller gets StoreError::unknown().
  };
  static constexpr Instant virtual_start{
      std::chrono::sys_days{std::chrono::year{2000} / std::chrono::January / 1}};
  static constexpr std::size_t remembered_changes = 4096;

  explicit MemoryStore(Clock clock = Clock::real, Order order = Order::one);
  MemoryStore(const MemoryStore&) = delete;
  MemoryStore& operator=(const MemoryStore&) = delete;
  // Makes what was posted, and waits for a running notice, unless that notice destroys the store.
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

  // Advances the virtual clock, and returns before notices that are now due are called. Throws
  // BadRequest if the clock is real or `by` is negative.
  void advance(std::chrono::nanoseconds by);
  // Returns when the threads of the store have nothing left to do: posts are made, due notices that
  // are not held back have run, lost() has fired. Throws BadRequest on one of those threads.
  void settle();

  // As if its process had died: lost() does not fire, and the entry stays.
  void kill_session(std::string_view id);
  // The store gives the session up: lost() fires on a thread of its own, and the entry stays until
  // the session ends.
  void lose_session(std::string_view id);

  // The next `count` applies and posts fail; several calls queue up in order. Sessions are not
  // affected.
  void fail_next(std::size_t count, Fault fault);
  // While true no notice runs; when it becomes false again, due notices run.
  void hold_notices(bool hold);
  // Sets a function that runs at the start of each apply and post, on its thread, with no lock
  // held. It may apply (which calls it again), wait, or throw what the apply is to throw. Null:
  // none.
  void before_apply(std::function<void(const Txn&)> hook);

 private:
  struct State;
  class OneWatch;
  class OneSession;
  std::shared_ptr<State> state_;
  std::shared_ptr<stores::PostQueue> durable_queue_;
};

}  // namespace tenure
