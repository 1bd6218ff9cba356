// postgres.hpp: a PostgreSQL server of a test's own, and schemas in the one of the program.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "tests/kit/server.hpp"

namespace tenure::kit {

class Postgres : public Server {
 public:
  struct Options {
    // Of postgresql.conf. By default the isolation of transactions is one with which the store
    // would grant a lock twice if it relied on the default.
    std::vector<std::string> settings = {"default_transaction_isolation='repeatable read'",
                                         "synchronous_commit=off", "fsync=off",
                                         "max_connections=100", "autovacuum_naptime=5s"};
    std::filesystem::path parent{};  // Of its directory; empty: in memory.
  };
  // The server of this program, for tests that leave it as it was. The first call starts it, and
  // must be made by the main thread, which outlives it.
  [[nodiscard]] static Postgres& instance();
  [[nodiscard]] static bool available();  // Whether its programs are installed.

  Postgres() : Postgres(Options{}) {}
  explicit Postgres(const Options& options);

  // Everything but tenure_schema.
  [[nodiscard]] std::string url(std::string_view user = "tenure",
                                std::string_view database = "postgres") const;
  [[nodiscard]] std::string url_of(std::string_view schema) const {
    return url() + "&tenure_schema=" + std::string{schema};
  }
  // Executes a statement on a connection of its own; the first field of the result.
  std::string sql(const std::string& text, std::string_view user = "tenure",
                  std::string_view database = "postgres") const;
  [[nodiscard]] std::filesystem::path socket_directory() const { return directory().path(); }

  void restart() override;
  [[nodiscard]] bool ready() const override;
};

// A schema of the program's server that does not exist yet; it is dropped with the object.
class Schema {
 public:
  Schema();
  Schema(const Schema&) = delete;
  Schema& operator=(const Schema&) = delete;
  ~Schema();
  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  [[nodiscard]] std::string url() const { return Postgres::instance().url_of(name_); }
  // Through what listens on that port: a proxy, a pooler, or the server itself. `limits` say when a
  // silent connection is given up: soon.
  [[nodiscard]] std::string url_at(
      int port, std::string_view limits = "&connect_timeout=4&tcp_user_timeout=2000") const;

 private:
  std::string name_;
  pid_t owner_;
};

}  // namespace tenure::kit
