#include "store/postgres/connection.hpp"

#include <poll.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cassert>
#include <cerrno>
#include <charconv>
#include <random>
#include <tuple>
#include <utility>

namespace tenure::postgres {
namespace {

using Clock = std::chrono::steady_clock;

// Sequential scans and JIT are off: a plan that was made while the tables were small would read
// whole tables once they have grown. The server detects a lost client as fast as the client detects
// a lost server (url.cpp). Timeouts are off: waits for other writers are short, and a timeout would
// leave the outcome unknown. Why search_path: routines.hpp.
constexpr const char* settings =
    "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL READ COMMITTED;"
    "SET search_path=pg_catalog,pg_temp;"
    "SET enable_seqscan=off; SET enable_bitmapscan=off; SET jit=off;"
    "SET plan_cache_mode=force_generic_plan;"
    "SET tcp_keepalives_idle=5; SET tcp_keepalives_interval=5; SET tcp_keepalives_count=2;"
    "SET tcp_user_timeout=10000;"
    "SET statement_timeout=0; SET lock_timeout=0; SET idle_in_transaction_session_timeout=0";

struct Pointers {
  explicit Pointers(const Target& target) {
    for (const std::string& name : target.names) names.push_back(name.c_str());
    for (const std::string& value : target.values) values.push_back(value.c_str());
    names.push_back(nullptr);
    values.push_back(nullptr);
  }
  std::vector<const char*> names;
  std::vector<const char*> values;
};

// What to do about an error of libpq or the server. Errors come as text only, so this searches for
// known phrases. If none is found, for example because the server uses another language, the result
// of PQping decides.
constexpr std::array<std::pair<const char*, const char*>, 14> advices = {{
    {"no pg_hba.conf entry",
     "Add a line for this user, database and address to the server's pg_hba.conf"},
    {"password", "Check user and password: in the URL, in ~/.pgpass or in PGPASSFILE"},
    {"role \"", "Check the user in the URL, or create it with CREATE ROLE … LOGIN"},
    {"database \"", "Check the database in the URL, or create it with CREATE DATABASE"},
    {"read-only",
     "The server rejects writes: name the primary, or list all hosts (the first that accepts "
     "writes is used), and check default_transaction_read_only"},
    {"certificate verify failed",
     "The server's certificate is not trusted: check that it has not expired, and that "
     "sslrootcert= names the certificate of the authority that signed it"},
    {"root certificate file",
     "Name the certificate of the authority that signed the server's certificate with "
     "sslrootcert=, or put it there"},
    {"does not match host name",
     "Connect to a host name that is in the server's certificate, or issue one for this name"},
    {"does not support SSL",
     "Turn on TLS at the server (ssl=on), or set sslmode=prefer or sslmode=disable"},
    {"SSL", "Check the TLS parameters (sslmode, sslrootcert, sslcert, sslkey)"},
    {"too many clients",
     "Raise max_connections, or put a connection pooler in front of the server"},
    {"connection slots",
     "Raise max_connections, or put a connection pooler in front of the server"},
    {"translate host name", "Check the host name in the URL"},
    {"onnection refused",
     "Check the host and the port, and that the server is running and listens there"},
}};

NoConnection refused(const Target& target, const Pointers& pointers, std::string reason) {
  reason.erase(std::min(reason.find("; Is the server running"), reason.size()));
  while (reason.ends_with('.')) reason.pop_back();
  const std::string start = "no connection to " + target.shown + ": " + reason + ". ";
  const PGPing ping = PQpingParams(pointers.names.data(), pointers.values.data(), 0);
  if (ping == PQPING_REJECT) {
    return {start + "The server is starting or stopping: retry in a moment", true};
  }
  for (const auto& [when, what] : advices) {
    if (reason.contains(when)) return {start + what, false};
  }
  if (ping == PQPING_OK) {
    return {start +
                "The server answers: check user, password, database and TLS, and that it is the "
                "primary and has free connections",
            false};
  }
  return {start + (ping == PQPING_NO_RESPONSE
                       ? "Check the host and the port, and that the server is running and reachable"
                       : "Check the parameters of the URL"),
          false};
}

constexpr int last_wait_ms = 500;
// For statements that create tables, or that wait until another client has.
constexpr int execute_factor = 3;

// Parameters in the form that libpq takes.
struct CallPointers {
  explicit CallPointers(const Params& params) {
    const auto count = static_cast<std::size_t>(params.count());
    assert(count <= max_params);
    for (std::size_t i = 0; i < count; ++i) {
      const std::string_view value = params.value(i);
      values[i] = value.data();
      sizes[i] = static_cast<int>(value.size());
      formats[i] = 1;
    }
  }
  static constexpr std::size_t max_params = 48;  // A batch has at most 35.
  std::array<const char*, max_params> values{};
  std::array<int, max_params> sizes{};
  std::array<int, max_params> formats{};
};

std::int64_t random_id() {
  std::random_device device;
  return static_cast<std::int64_t>(std::uint64_t{device()} << 32U | device());
}

bool is_good(const Result& result) {
  const ExecStatusType status = PQresultStatus(result.get());
  return status == PGRES_TUPLES_OK || status == PGRES_COMMAND_OK;
}

}  // namespace

Connection::Connection(std::shared_ptr<const Target> target)
    : target_(std::move(target)), id_(random_id()) {
  const Pointers pointers{*target_};
  connection_.reset(PQconnectdbParams(pointers.names.data(), pointers.values.data(), 0));
  PGconn* const connection = connection_.get();
  if (connection == nullptr)
    throw NoConnection("out of memory: cannot open a connection to PostgreSQL", true);
  if (PQstatus(connection) != CONNECTION_OK) {
    throw refused(*target_, pointers, target_->hide(PQerrorMessage(connection)));
  }
  PQsetNoticeProcessor(connection, [](void*, const char*) {}, nullptr);
  try {
    const Result backend = execute("SELECT pg_backend_pid()");
    pooled_ = backend.text(0, 0) != std::to_string(PQbackendPID(connection));
    if (!pooled_) {
      execute(std::string{settings} + ";SELECT pg_advisory_lock_shared('" + std::to_string(id_) +
              "'::bigint)");
    }
  } catch (const Failed& failed) {
    throw NoConnection("no connection to " + target_->shown + ": " + failed.what(),
                       failed.broken());
  }
}

std::size_t Statement::new_id() noexcept {
  static std::atomic<std::size_t> last{0};
  return last.fetch_add(1, std::memory_order_relaxed);
}

std::int64_t Result::changed() const {
  const std::string_view count = PQcmdTuples(result_.get());
  std::int64_t rows = 0;
  std::from_chars(count.data(), count.data() + count.size(), rows);
  return rows;
}

void Connection::fail(const PGresult* result, bool sent, std::size_t done) {
  const char* const state =
      result == nullptr ? nullptr : PQresultErrorField(result, PG_DIAG_SQLSTATE);
  std::string text;
  if (const char* const primary =
          result == nullptr ? nullptr : PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY)) {
    text = primary;
  } else {
    text = PQerrorMessage(connection_.get());
  }
  throw Failed(target_->shown + ": " + target_->hide(std::move(text)),
               state == nullptr ? "" : state, PQstatus(connection_.get()) != CONNECTION_OK, sent,
               done);
}

Result Connection::execute(const std::string& sql) {
  if (PQsendQuery(connection_.get(), sql.c_str()) == 0) fail(nullptr, true);
  Patience patience{.limit = target_->silence};
  if (patience.limit) *patience.limit *= execute_factor;
  return last(patience);
}

void Connection::prepare(const Statement& statement, const Params& params,
                         const Patience& patience) {
  if (statement.id < prepared_.size() && prepared_[statement.id]) return;
  if (PQsendPrepare(connection_.get(), statement.name.c_str(), statement.sql.c_str(),
                    params.count(), params.types().data()) == 0) {
    fail(nullptr, false);
  }
  try {
    std::ignore = last(patience);
  } catch (const Failed& failed) {  // The statement that was to be prepared has not been sent.
    throw Failed(failed.what(), failed.state(), failed.broken(), false);
  }
  if (prepared_.size() <= statement.id) prepared_.resize(statement.id + 1);
  prepared_[statement.id] = true;
}

bool Connection::send(const Statement& statement, const Params& params) {
  const CallPointers pointers{params};
  if (pooled_) {
    return PQsendQueryParams(connection_.get(), statement.sql.c_str(), params.count(),
                             params.types().data(), pointers.values.data(), pointers.sizes.data(),
                             pointers.formats.data(), 1) != 0;
  }
  return PQsendQueryPrepared(connection_.get(), statement.name.c_str(), params.count(),
                             pointers.values.data(), pointers.sizes.data(), pointers.formats.data(),
                             1) != 0;
}

Result Connection::call(const Statement& statement, const Params& params,
                        const Patience& patience) {
  if (!pooled_) prepare(statement, params, patience);
  // A part of the message may have been sent, but never its end: the server can't run it.
  if (!send(statement, params)) fail(nullptr, false);
  Result result = next(patience);
  // Reads the answer to its end, whatever it says: a connection with unread results accepts no
  // other call. A server that is shutting down may send a row before the commit: only the end of
  // the answer proves the commit.
  for (Result more = next(patience); more.get() != nullptr; more = next(patience)) {
    if (is_good(result) && !is_good(more)) result = std::move(more);
  }
  if (!is_good(result)) fail(result.get(), true);
  return result;
}

std::vector<Result> Connection::run(std::span<const Step> steps, const Patience& patience) {
  for (const Step& step : steps) prepare(*step.statement, *step.params, patience);
  PGconn* const connection = connection_.get();
  PQenterPipelineMode(connection);
  const bool queued = std::ranges::all_of(
      steps, [this](const Step& step) { return send(*step.statement, *step.params); });
  // Statements that were queued can't be taken back, so the connection is unusable.
  if (!queued)
    throw Failed(target_->shown + ": out of memory while sending a statement", "", true, false);
  if (PQpipelineSync(connection) == 0) fail(nullptr, true);
  std::vector<Result> results = rest_of_run(patience);
  PQexitPipelineMode(connection);
  const auto bad = std::ranges::find_if_not(results, is_good);
  if (bad == results.end()) return results;
  // A failed transaction stays open until ROLLBACK.
  if (PQtransactionStatus(connection) == PQTRANS_INERROR) std::ignore = execute("ROLLBACK");
  fail(bad->get(), true, static_cast<std::size_t>(bad - results.begin()));
}

// Results are separated by a null; two nulls in a row mean that the connection has ended.
std::vector<Result> Connection::rest_of_run(const Patience& patience) {
  std::vector<Result> results;
  for (bool between = false;;) {
    Result one = next(patience);
    if (one.get() == nullptr) {
      if (between) fail(results.empty() ? nullptr : results.back().get(), true);
      between = true;
      continue;
    }
    between = false;
    if (PQresultStatus(one.get()) == PGRES_PIPELINE_SYNC) return results;
    results.push_back(std::move(one));
  }
}

void Connection::throw_silent(std::chrono::milliseconds limit, const std::string& why) const {
  throw Failed(target_->shown + ": the server did not answer within " +
                   std::to_string(limit.count()) + " ms: " + why,
               "", true, true);
}

// Null at the end of the answer.
Result Connection::next(const Patience& patience) {
  PGconn* const connection = connection_.get();
  Clock::time_point until{};  // The clock is read only if there is something to wait for.
  while (PQisBusy(connection) != 0) {
    int left = -1;
    if (patience.limit) {
      if (until == Clock::time_point{}) until = Clock::now() + *patience.limit;
      const auto time = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now());
      left = static_cast<int>(std::max<std::int64_t>(time.count(), 0));
    }
    pollfd one{.fd = PQsocket(connection), .events = POLLIN, .revents = 0};
    int ready = ::poll(&one, 1, left);
    if (ready == 0) {
      const std::string why = patience.why_silent ? patience.why_silent() : "it was not asked why";
      if (why.empty()) {
        until = {};
      } else {
        ready = ::poll(&one, 1, last_wait_ms);  // The answer may have come during that question.
        // NOLINTNEXTLINE(bugprone-unchecked-optional-access): without a limit, poll() waits on.
        if (ready == 0) throw_silent(*patience.limit, why);
      }
    }
    if (ready < 0 && errno != EINTR) throw Failed(target_->shown + ": poll failed", "", true, true);
    if (ready > 0 && PQconsumeInput(connection) == 0) fail(nullptr, true);
  }
  return Result{PQgetResult(connection)};
}

// The last result of everything that was sent.
Result Connection::last(const Patience& patience) {
  Result result = next(patience);
  if (result.get() != nullptr) {
    for (Result more = next(patience); more.get() != nullptr; more = next(patience)) {
      result = std::move(more);
    }
  }
  if (!is_good(result)) fail(result.get(), true);
  return result;
}

bool Connection::stale() {
  pollfd one{.fd = PQsocket(connection_.get()), .events = POLLIN, .revents = 0};
  return ::poll(&one, 1, 0) != 0;
}

bool Connection::consume() {
  return PQconsumeInput(connection_.get()) != 0 && PQstatus(connection_.get()) == CONNECTION_OK;
}

std::optional<Connection::Notification> Connection::notification() {
  struct Free {
    void operator()(PGnotify* notify) const noexcept { PQfreemem(notify); }
  };
  const std::unique_ptr<PGnotify, Free> notify{PQnotifies(connection_.get())};
  if (!notify) return std::nullopt;
  return Notification{.channel = notify->relname, .payload = notify->extra};
}

}  // namespace tenure::postgres
