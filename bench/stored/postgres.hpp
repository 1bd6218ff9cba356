// postgres.hpp: PostgreSQL's advisory locks, over TCP and over a Unix socket.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>

#include "tests/kit/postgres.hpp"

struct pg_conn;

namespace tenure::bench::stored {

class Postgres {
 public:
  // A connection; the server has a process for it.
  class Session {
   public:
    Session(const std::string& host, int port, int key);
    void lock();
    void unlock();
    [[nodiscard]] pid_t server() const noexcept;

    struct Disconnect {
      void operator()(pg_conn* connection) const noexcept;
    };

   private:
    void call(const char* statement);

    std::unique_ptr<pg_conn, Disconnect> connection_;
    std::string key_;
  };

  enum class Disk : std::uint8_t { ignored, synced };
  // Null if the server is not installed. Throws std::runtime_error if it does not start.
  [[nodiscard]] static std::unique_ptr<Postgres> start(Disk disk = Disk::ignored);

  [[nodiscard]] Session over_tcp(int key = 1) const { return {"127.0.0.1", server_.port(), key}; }
  [[nodiscard]] Session over_unix_socket() const {
    return {server_.socket_directory().string(), server_.port(), 2};
  }
  // For a store, over TCP.
  [[nodiscard]] std::string url(const std::string& database = "postgres") const {
    return server_.url("tenure", database);
  }
  void make_database(const std::string& name) const;
  [[nodiscard]] pid_t pid() const noexcept { return server_.pid(); }

 private:
  explicit Postgres(Disk disk);

  kit::Postgres server_;
};

}  // namespace tenure::bench::stored
