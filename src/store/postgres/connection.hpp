// connection.hpp: one connection to a PostgreSQL server.
//
// A direct connection has our settings and prepared statements. Behind a pooler each transaction
// may run on another backend, so there are neither.
//
// Thread safety: none; one thread at a time.
#pragma once

#include <libpq-fe.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "store/postgres/url.hpp"
#include "store/postgres/wire.hpp"
#include "tenure/error.hpp"

namespace tenure::postgres {

// A call that failed.
class Failed : public Error {
 public:
  // NOLINTNEXTLINE(bugprone-easily-swappable-parameters): as they are asked for below.
  Failed(const std::string& message, std::string state, bool broken, bool sent,
         std::size_t done = 0)
      : Error(message), state_(std::move(state)), broken_(broken), sent_(sent), done_(done) {}
  // The SQLSTATE; empty if the server sent none.
  [[nodiscard]] const std::string& state() const noexcept { return state_; }
  // The connection is unusable.
  [[nodiscard]] bool broken() const noexcept { return broken_; }
  // The server may have received the call.
  [[nodiscard]] bool sent() const noexcept { return sent_; }
  // How many of several steps succeeded before this one.
  [[nodiscard]] std::size_t done() const noexcept { return done_; }

 private:
  std::string state_;
  bool broken_;
  bool sent_;
  std::size_t done_;
};

// No connection could be opened.
class NoConnection : public Error {
 public:
  NoConnection(const std::string& message, bool for_now) : Error(message), for_now_(for_now) {}
  // The server is starting or stopping.
  [[nodiscard]] bool for_now() const noexcept { return for_now_; }

 private:
  bool for_now_;
};

class Result {
 public:
  explicit Result(PGresult* result) : result_(result) {}
  [[nodiscard]] int rows() const { return PQntuples(result_.get()); }
  [[nodiscard]] bool null(int row, int column) const {
    return PQgetisnull(result_.get(), row, column) != 0;
  }
  // Valid as long as the result.
  [[nodiscard]] std::string_view bytes(int row, int column) const {
    return {PQgetvalue(result_.get(), row, column),
            static_cast<std::size_t>(PQgetlength(result_.get(), row, column))};
  }
  [[nodiscard]] std::string text(int row, int column) const {
    return std::string{bytes(row, column)};
  }
  [[nodiscard]] bool flag(int row, int column) const { return bytes(row, column) == "\1"; }
  [[nodiscard]] std::int64_t number(int row, int column) const {
    return number_in(bytes(row, column));
  }
  // How many rows were inserted, updated or deleted.
  [[nodiscard]] std::int64_t changed() const;
  [[nodiscard]] const PGresult* get() const noexcept { return result_.get(); }

 private:
  struct Free {
    void operator()(PGresult* result) const noexcept { PQclear(result); }
  };
  std::unique_ptr<PGresult, Free> result_;
};

// A text of SQL, and the name under which a connection prepares it.
struct Statement {
  std::string name;
  std::string sql;
  // Unique in the process: identifies the statement on every connection.
  std::size_t id = new_id();

 private:
  static std::size_t new_id() noexcept;
};

struct Step {
  const Statement* statement;
  const Params* params;
};

// How long to wait for an answer: `limit`, and again each time the server is found to be still
// working on the call: why_silent() then returns an empty string, otherwise what is wrong.
struct Patience {
  // Initializers, so that designated ones may leave members out.
  // NOLINTBEGIN(readability-redundant-member-init)
  std::optional<std::chrono::milliseconds> limit{};  // None: for ever.
  std::function<std::string()> why_silent{};
  // NOLINTEND(readability-redundant-member-init)
};

class Connection {
 public:
  // Throws NoConnection.
  explicit Connection(std::shared_ptr<const Target> target);

  // Parameters and results are binary. Throws Failed, also if the answer takes too long; the
  // connection is broken then.
  Result call(const Statement& statement, const Params& params, const Patience& patience = {});
  // Sends several steps in one message; each has a result. Not behind a pooler. Throws the failure
  // of the first step that fails; later steps were not made.
  std::vector<Result> run(std::span<const Step> steps, const Patience& patience);
  // Runs any number of statements and returns the last result, as text. Waits for a few times the
  // target's `silence`.
  Result execute(const std::string& sql);

  [[nodiscard]] bool pooled() const noexcept { return pooled_; }
  // For an idle connection: the server has closed it, or has sent something unexpected.
  [[nodiscard]] bool stale();
  // Reads what has arrived. False: the connection is broken.
  [[nodiscard]] bool consume();
  struct Notification {
    std::string channel;
    std::string payload;
  };
  [[nodiscard]] std::optional<Notification> notification();
  [[nodiscard]] int socket() const { return PQsocket(connection_.get()); }
  [[nodiscard]] const PGconn* get() const noexcept { return connection_.get(); }
  // A random number. Unless the connection is pooled, its backend holds an advisory lock of that
  // number: no other backend does, nor this one when it serves another client.
  [[nodiscard]] std::int64_t id() const noexcept { return id_; }

  // What the user of the connection has checked, for as long as the connection lasts.
  struct Vouched {
    std::int64_t table = 0;
    bool two_commits = false;  // A durable transaction needs two commits (batch.hpp).
  };
  void vouch_for(const Vouched& what) noexcept { vouched_ = what; }
  [[nodiscard]] const Vouched& vouched() const noexcept { return vouched_; }

 private:
  struct Finish {
    void operator()(PGconn* connection) const noexcept { PQfinish(connection); }
  };
  void prepare(const Statement& statement, const Params& params, const Patience& patience);
  [[nodiscard]] bool send(const Statement& statement, const Params& params);
  Result next(const Patience& patience);
  [[noreturn]] void throw_silent(std::chrono::milliseconds limit, const std::string& why) const;
  Result last(const Patience& patience);
  std::vector<Result> rest_of_run(const Patience& patience);
  [[noreturn]] void fail(const PGresult* result, bool sent, std::size_t done = 0);

  std::shared_ptr<const Target> target_;
  std::unique_ptr<PGconn, Finish> connection_;
  std::vector<bool> prepared_;  // By id of the statement.
  std::int64_t id_;
  Vouched vouched_;
  bool pooled_ = false;
};

}  // namespace tenure::postgres
