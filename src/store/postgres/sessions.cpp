#include "store/postgres/sessions.hpp"

#include <algorithm>
#include <random>
#include <utility>

#include "store/session_entry.hpp"

namespace tenure::postgres {
namespace {

using namespace std::chrono_literals;

constexpr stores::LeaseRenewer::Timing timing{.earliest = 0.22, .latest = 0.33, .retry = 250ms};

// Operand types match exactly: routines.hpp says why.
constexpr std::string_view clock_sql =
    "(extract(epoch FROM clock_timestamp())::float8 * 1e9::float8)::bigint";

std::uint64_t random_seed() {
  std::random_device device;
  return std::uint64_t{device()} << 32U | device();
}

// Also deletes sessions that died long ago; nobody asks for them any more. May be made twice: the
// answer to the first call may be lost.
constexpr std::string_view insert_sql =
    "WITH old AS (DELETE FROM @.session WHERE deadline < clock_timestamp() - interval '1 hour')"
    "INSERT INTO @.session VALUES ($1, clock_timestamp() + $2::float8 * interval '1 millisecond')"
    "ON CONFLICT (id) DO UPDATE SET deadline = excluded.deadline RETURNING ";
constexpr std::string_view renew_sql =
    "UPDATE @.session SET deadline = clock_timestamp() + $2::float8 * interval '1 millisecond'"
    "WHERE id=$1 AND deadline > clock_timestamp() RETURNING ";
constexpr std::string_view find_sql =
    "SELECT (extract(epoch FROM deadline - clock_timestamp())::float8 * 1e9::float8)::bigint "
    "FROM @.session WHERE id=$1";
constexpr std::string_view bury_sql =
    "DELETE FROM @.session WHERE id=$1 AND deadline <= clock_timestamp()";
constexpr std::string_view end_sql = "DELETE FROM @.session WHERE id=$1";

std::string with_clock(const Target& target, std::string_view sql) {
  return target.in_schema(sql).append(clock_sql);
}

Params of(std::string_view id) {
  Params params;
  params.add_text(id);
  return params;
}

Params of(std::string_view id, std::chrono::milliseconds ttl) {
  Params params = of(id);
  params.add_number(ttl.count());
  return params;
}

bool is_id(std::string_view id) {
  return id.size() == 16 && id.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

}  // namespace

// Used by the renewing thread, with a connection of its own.
class Sessions::Renewals {
 public:
  explicit Renewals(std::shared_ptr<Executor> executor)
      : executor_(std::move(executor)),
        renew_{.name = "tenure_renew", .sql = with_clock(executor_->target(), renew_sql)} {}

  std::chrono::milliseconds renew(const stores::Lease& lease) {
    try {
      if (connection_ && connection_->stale()) lose_connection();
      if (!connection_) connection_ = executor_->connect(0ms);
      const std::int64_t sent = boot_ns();
      const Result result =
          connection_->call(renew_, of(lease.session, lease.ttl), {.limit = lease.ttl / 4});
      if (result.rows() == 0) return 0ms;
      executor_->saw_clock(result.number(0, 0), sent);
      return lease.ttl;
    } catch (const Failed& failed) {
      if (failed.broken()) lose_connection();
      throw;
    } catch (...) {
      lose_connection();
      throw;
    }
  }

 private:
  void lose_connection() {
    connection_.reset();
    executor_->doubt();
  }

  const std::shared_ptr<Executor> executor_;
  const Statement renew_;
  std::unique_ptr<Connection> connection_;
};

Sessions::Sessions(std::shared_ptr<Executor> executor)
    : executor_(std::move(executor)),
      insert_{.name = "tenure_open", .sql = with_clock(executor_->target(), insert_sql)},
      find_{.name = "tenure_find", .sql = executor_->target().in_schema(find_sql)},
      bury_{.name = "tenure_bury", .sql = executor_->target().in_schema(bury_sql)},
      end_{.name = "tenure_end", .sql = executor_->target().in_schema(end_sql)},
      renewer_(std::make_shared<stores::LeaseRenewer>(
          timing, [renewals = std::make_shared<Renewals>(executor_)](const stores::Lease& lease) {
            return renewals->renew(lease);
          })) {}

std::shared_ptr<stores::Lease> Sessions::open(std::chrono::milliseconds ttl) {
  renewer_->start();
  ttl = ttl.count() <= 0 ? default_ttl : std::clamp(ttl, min_ttl, max_ttl);
  std::string id = stores::session_id(random_seed());
  const std::int64_t sent = boot_ns();
  const Result result = executor_->ask(insert_, of(id, ttl));
  executor_->saw_clock(result.number(0, 0), sent);
  return renewer_->add(std::move(id), ttl, sent);
}

void Sessions::end(const std::shared_ptr<stores::Lease>& lease) noexcept {
  renewer_->remove(lease);
  try {
    executor_->ask(end_, of(lease->session));
  } catch (...) {  // NOLINT(bugprone-empty-catch)
    // The session ends at its deadline.
  }
}

std::chrono::nanoseconds Sessions::left(std::string_view id) {
  if (!is_id(id)) return 0ns;
  for (;;) {
    const Result found = executor_->ask(find_, of(id));
    if (found.rows() == 0) return 0ns;
    if (const std::int64_t left = found.number(0, 0); left > 0)
      return std::chrono::nanoseconds{left};
    executor_->ask(bury_, of(id));  // Unless it was renewed in between.
  }
}

}  // namespace tenure::postgres
