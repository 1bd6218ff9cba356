// connection.hpp: one connection to a PostgreSQL server.
//
// A connection that was made for us alone has our settings and prepared statements. One behind a
// pooler is another backend's with every transaction: there it has neither.
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
  // Its SQLSTATE; empty where the server said none.
  [[nodiscard]] const std::string& state() const noexcept { return state_; }
  // The connection is of no use any more.
  [[nodiscard]] bool broken() const noexcept { return broken_; }
  // The server may have got it.
  [[nodiscard]] bool sent() const noexcept { return sent_; }
  // Of several steps: so many went well before.
  [[nodiscard]] std::size_t done() const noexcept { return done_; }

 private:
  std::string state_;
  bool broken_;
  bool sent_;
  std::size_t done_;
};

// There is no connection.
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
  // As long as the result.
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
  std::size_t id = new_id();  // Of the process: what a connection knows it by.

 private:
  static std::size_t new_id() noexcept;
};

struct Step {
  const Statement* statement;
  const Params* params;
};

// How long an answer is waited for: `limit`, and once more each time that the server is found to be
// still at it: why_silent() then returns nothing, or else what is wrong.
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

  // Parameters and results are binary. Throws Failed; also when it takes longer than that, and the
  // connection is broken then.
  Result call(const Statement& statement, const Params& params, const Patience& patience = {});
  // Several in one message, each with a result. Not behind a pooler. The first that fails is
  // thrown, and those behind it were not made.
  std::vector<Result> run(std::span<const Step> steps, const Patience& patience);
  // Any number of statements; the last result, as text. Within a few times the target's silence.
  Result execute(const std::string& sql);

  [[nodiscard]] bool pooled() const noexcept { return pooled_; }
  // Of an idle one: the server has closed it, or said something that nobody asked for.
  [[nodiscard]] bool stale();
  // Reads what has come. False: the connection is broken.
  [[nodiscard]] bool consume();
  struct Notification {
    std::string channel;
    std::string payload;
  };
  [[nodiscard]] std::optional<Notification> notification();
  [[nodiscard]] int socket() const { return PQsocket(connection_.get()); }
  [[nodiscard]] const PGconn* get() const noexcept { return connection_.get(); }
  // A random number of its own. Unless it is pooled, its backend holds an advisory lock of that
  // number: no other backend does, nor this one when it works for another client.
  [[nodiscard]] std::int64_t id() const noexcept { return id_; }

  // Its user's own: what was found to be in order, for as long as the connection lasts.
  struct Vouched {
    std::int64_t table = 0;
    bool two_commits = false;  // What is durable has to be (statements.hpp).
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
  std::vector<bool> prepared_;  // By statement.
  std::int64_t id_;
  Vouched vouched_;
  bool pooled_ = false;
};

}  // namespace tenure::postgres
