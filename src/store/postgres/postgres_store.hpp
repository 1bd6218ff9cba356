// postgres_store.hpp: a store in a PostgreSQL database, for every machine that reaches it.
//
// A store belongs to the process that opened it. After fork(), every call of the child throws, and
// destroying inherited objects in the child has no effect. The child may open the URL again.
//
// Thread safety: all calls, from any thread, at once.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "store/common/queued_store.hpp"
#include "store/postgres/url.hpp"
#include "tenure/store.hpp"

namespace tenure::postgres {

class Executor;
class Sessions;
class Watches;

class PostgresStore final : public stores::QueuedStore,
                            public std::enable_shared_from_this<PostgresStore> {
 public:
  // Throws StoreError.
  explicit PostgresStore(Target target);
  PostgresStore(const PostgresStore&) = delete;
  PostgresStore& operator=(const PostgresStore&) = delete;
  ~PostgresStore() override;

  Outcome apply(const Txn& txn) override;
  [[nodiscard]] std::unique_ptr<Watch> watch(WatchFor what, Notice notice) override;
  [[nodiscard]] std::unique_ptr<Session> open_session(const SessionOptions& options) override;
  [[nodiscard]] bool alive(std::string_view session) override;
  [[nodiscard]] bool remote() const noexcept override { return true; }
  [[nodiscard]] Instant now() override;
  [[nodiscard]] Instant latest_now() noexcept override;
  [[nodiscard]] std::vector<Fact> facts() override;

  [[nodiscard]] const Executor& executor() const noexcept { return *parts_->executor; }

 private:
  class HeldSession;
  struct Parts {
    std::shared_ptr<Executor> executor;
    std::shared_ptr<Sessions> sessions;
    std::shared_ptr<Watches> watches;
  };
  void sync() override;
  Outcome apply(const Txn& txn, bool own_session);
  // Removes the entry of a session of this process.
  void end_session(const std::string& entry);

  std::unique_ptr<Parts> parts_;
};

// Two openings of one URL by one process share one store, unless `alone` is true.
[[nodiscard]] std::shared_ptr<Store> open_postgres(std::string_view url, bool alone = false);

}  // namespace tenure::postgres
