// server_test.hpp: for tests: a PostgreSQL server of the test program's own, on a free port of the
// loopback, which goes with the program.
//
// It runs as an ordinary user, with fsync on, and with a default isolation that would hand locks
// out twice if the store relied on it.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>
#include <string_view>

#include "store/scratch.hpp"

namespace tenure::postgres {

class TestServer {
 public:
  // The one of this program: started by the first call, in its main thread.
  static TestServer& instance();
  // Whether the machine has PostgreSQL's programs.
  static bool available();

  TestServer(const TestServer&) = delete;
  TestServer& operator=(const TestServer&) = delete;

  // Everything but tenure_schema.
  [[nodiscard]] std::string url(std::string_view user = "tenure") const;
  [[nodiscard]] std::string url_of(std::string_view schema) const {
    return url() + "&tenure_schema=" + std::string{schema};
  }
  // The first field of the last statement's result, by a connection of its own.
  std::string sql(const std::string& text, std::string_view user = "tenure") const;

  void start();
  void stop(int signal);  // SIGKILL, SIGQUIT (immediate), SIGINT (fast); waits.
  [[nodiscard]] int port() const noexcept { return port_; }

  ~TestServer();

 private:
  TestServer();
  [[nodiscard]] bool answers() const;

  const stores::Scratch directory_{"tenure-pg-"};
  int port_ = 0;
  pid_t pid_ = 0;
  pid_t owner_ = 0;
};

// A schema that nothing is in yet, and that goes with the object.
class TestSchema {
 public:
  TestSchema();
  TestSchema(const TestSchema&) = delete;
  TestSchema& operator=(const TestSchema&) = delete;
  ~TestSchema();
  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  [[nodiscard]] std::string url() const { return TestServer::instance().url_of(name_); }

 private:
  std::string name_;
  pid_t owner_;
};

}  // namespace tenure::postgres
