// Writes whose answer was lost: whether their backend still works on them, and how they are
// resolved.
#include <charconv>
#include <chrono>
#include <string>
#include <thread>
#include <tuple>

#include "store/postgres/executor.hpp"
#include "store/postgres/request.hpp"

namespace tenure::postgres {
namespace {

using namespace std::chrono_literals;

constexpr auto resolve_limit = 5s;
constexpr auto end_pause = 20ms;

// The backend of a direct connection. Operand types match exactly: routines.hpp.
std::string backend_of(std::int64_t connection_id) {
  const auto number = static_cast<std::uint64_t>(connection_id);
  return "(SELECT pid FROM pg_locks WHERE locktype='advisory' AND objsubid=1::smallint AND "
         "classid='" +
         std::to_string(number >> 32U) + "'::oid AND objid='" +
         std::to_string(number & 0xffffffffU) + "'::oid) AS l";
}

// Entries that void what was sent on a pooled connection.
constexpr std::string_view void_prefix = reserved::void_connections;
constexpr auto void_lasts = 1h;

}  // namespace

std::string Executor::void_key(std::int64_t connection_id) {
  return std::string{void_prefix} + std::to_string(connection_id);
}

// Empty: the connection's backend is working. Behind a pooler nobody knows which backend that is.
std::string Executor::why_silent(const Connection& connection) {
  if (connection.pooled()) return "behind a pooler it cannot be asked what it does";
  try {
    Connection asking{target_};
    const Result state = asking.execute("SELECT a.state FROM " + backend_of(connection.id()) +
                                        ", pg_stat_get_activity(l.pid) AS a");
    if (state.rows() == 0) return "it has ended the connection";
    if (state.text(0, 0) == "active") return {};
    return "it received nothing, or the answer was lost";
  } catch (const Error& error) {
    return std::string{"asked by another connection, "} + error.what();
  }
}

void Executor::add_unknown_commit(const UnknownCommit& lost) {
  {
    const Lock lock{mutex_};
    unknown_commits_.push_back(lost);
  }
  try {
    resolve_unknown_commits(resolve_limit);
  } catch (const Error&) {  // NOLINT(bugprone-empty-catch)
    // The next apply resolves it.
  }
}

void Executor::resolve_unknown_commits(std::chrono::milliseconds limit) {
  for (;;) {
    UnknownCommit lost;
    {
      const Lock lock{mutex_};
      if (unknown_commits_.empty()) return;
      lost = unknown_commits_.front();
    }
    try {
      resolve_unknown_commit(*connect(limit), lost);
    } catch (const Failed& failed) {
      throw StoreError(std::string{failed.what()} +
                       ": an earlier transaction may still be committed: retry in a moment");
    }
    const Lock lock{mutex_};
    std::erase_if(unknown_commits_, [&lost](const UnknownCommit& one) {
      return one.connection_id == lost.connection_id;
    });
  }
}

void Executor::resolve_unknown_commit(Connection& connection, const UnknownCommit& lost) {
  if (lost.pooled) {
    void_writes(connection, lost.connection_id);
    return;
  }
  const std::string terminate =
      "SELECT pg_terminate_backend(l.pid) FROM " + backend_of(lost.connection_id);
  const std::int64_t until = boot_ns() + std::chrono::nanoseconds{resolve_limit}.count();
  while (connection.execute(terminate).rows() > 0) {
    if (boot_ns() >= until) {
      throw StoreError(target_->shown +
                       ": the server has not ended a backend that was told to end: an earlier "
                       "transaction may still be committed: retry in a moment");
    }
    std::this_thread::sleep_for(end_pause);
  }
}

// A pooler sends what it has, or drops it, long before `void_lasts` is over.
void Executor::void_writes(Connection& connection, std::int64_t connection_id) {
  const Patience patient{.limit = target_->silence};
  Txn look;
  look.reads.push_back(Range::prefix(std::string{void_prefix}));
  const Answer seen =
      answer_of(look, connection.call(look_, look_params(look, plain_bucket), patient));
  Txn txn;
  txn.durability = Durability::full;
  for (const Entry& entry : seen.outcome.reads[0]) {
    std::int64_t written = 0;
    std::from_chars(entry.value.data(), entry.value.data() + entry.value.size(), written);
    if (seen.clock_ns - written > std::chrono::nanoseconds{void_lasts}.count()) {
      txn.writes.push_back(Write::remove(entry.key));
    }
  }
  txn.writes.push_back(Write::put(void_key(connection_id), std::to_string(seen.clock_ns)));
  std::ignore = connection.call(change_, change_params(txn, buckets_of(txn)), patient);
}

}  // namespace tenure::postgres
