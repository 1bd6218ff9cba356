// shard.hpp: one shard of a sharded space: its store and the space in it, opened by the first
// request that needs them.
//
//   state      | ready() | entered by
//   -----------+---------+----------------------------------------------------------------------
//   not open   | null    | the constructor; prepare() that failed
//   open       | null    | a request that found the map changed; a session that was lost
//   ready      | the     | prepare(): the store is open, its session alive, its map is known
//              | parts   |
//
// prepare() may wait for a server. If it failed less than `retry_after` ago, it throws the same
// error at once, so that a shard that is down costs its callers nothing.
//
// Mutexes: `opening_` is held while a server is asked, so one thread opens the shard; `mutex_`
// guards the parts, and nothing is called with it locked. The first is locked before the second.
//
// Thread safety: all calls.
#pragma once

#include <chrono>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "base/annotations.hpp"
#include "base/mutex.hpp"
#include "space/sharded/shard_list.hpp"
#include "space/sharded/shard_map.hpp"
#include "space/stored/record.hpp"
#include "space/stored/request_threads.hpp"
#include "space/stored/stored_space.hpp"
#include "tenure/store.hpp"

namespace tenure::sharded {

class Shard {
 public:
  static constexpr std::chrono::milliseconds retry_after{1000};

  struct Parts {
    std::shared_ptr<Store> store;
    std::shared_ptr<stored::StoredSpace> space;
    std::shared_ptr<const StoredMap> map;
    stored::GateRef gate;  // Holds while the map is the stored one.
  };
  // Makes the space in the shard's store.
  using MakeSpace =
      std::function<std::shared_ptr<stored::StoredSpace>(const std::shared_ptr<Store>& store)>;

  Shard(ShardSource source, MakeSpace make_space)
      : source_(std::move(source)), make_space_(std::move(make_space)) {}
  Shard(const Shard&) = delete;
  Shard& operator=(const Shard&) = delete;
  ~Shard() = default;

  [[nodiscard]] const std::string& name() const noexcept { return source_.name; }
  [[nodiscard]] const std::string& shown() const noexcept { return source_.shown; }

  // Never waits. Null: call prepare().
  [[nodiscard]] std::shared_ptr<const Parts> ready() noexcept;
  // Throws StoreError that names the shard. `again`: reads the map even if the shard is ready.
  [[nodiscard]] std::shared_ptr<const Parts> prepare(bool again = false);
  // The map alone; nothing stays open.
  [[nodiscard]] StoredMap look();

  // Threads that wait for this shard alone.
  [[nodiscard]] stored::RequestThreads& threads() noexcept { return *threads_; }

  // The space, if it is open.
  [[nodiscard]] std::shared_ptr<stored::StoredSpace> opened() noexcept;
  // The same; later calls open nothing.
  [[nodiscard]] std::shared_ptr<stored::StoredSpace> close() noexcept;
  // After close(): joins the threads, and lets go of the space and the store.
  void end() noexcept;

 private:
  [[nodiscard]] std::shared_ptr<const Parts> parts() noexcept;
  void open_store() TENURE_REQUIRES(opening_);
  [[nodiscard]] std::string unusable(std::string_view why) const;
  [[noreturn]] void fail(const std::exception& error) TENURE_REQUIRES(opening_);

  const ShardSource source_;
  const MakeSpace make_space_;
  base::Mutex opening_;
  std::shared_ptr<Store> store_ TENURE_GUARDED_BY(opening_);
  std::string failure_ TENURE_GUARDED_BY(opening_);  // Of the last attempt; empty: it succeeded.
  std::chrono::steady_clock::time_point failed_at_ TENURE_GUARDED_BY(opening_);
  base::Mutex mutex_;
  std::shared_ptr<const Parts> parts_ TENURE_GUARDED_BY(mutex_);
  bool closed_ TENURE_GUARDED_BY(mutex_) = false;
  std::unique_ptr<stored::RequestThreads> threads_ = std::make_unique<stored::RequestThreads>();
};

}  // namespace tenure::sharded
