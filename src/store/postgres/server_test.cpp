#include "store/postgres/server_test.hpp"

#include <fcntl.h>
#include <grp.h>
#include <libpq-fe.h>
#include <pwd.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <system_error>
#include <thread>
#include <vector>

namespace tenure::postgres {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

constexpr auto start_limit = 60s;

// Debian keeps the server's programs out of PATH, a directory for each version.
fs::path programs() {
  fs::path best;
  std::error_code none;
  for (const auto& version : fs::directory_iterator{"/usr/lib/postgresql", none}) {
    if (fs::exists(version.path() / "bin/initdb") && version.path() > best) best = version.path();
  }
  return best.empty() ? best : best / "bin";
}

// Root may not run a server.
const passwd* server_user() {
  if (::geteuid() != 0) return nullptr;
  // NOLINTNEXTLINE(concurrency-mt-unsafe)
  const passwd* const user = ::getpwnam("postgres");
  if (user == nullptr) throw std::runtime_error("there is no user postgres to run a server as");
  return user;
}

pid_t spawn(const std::vector<std::string>& words, const fs::path& log, bool dies_with_us) {
  std::vector<char*> argv;
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  const passwd* const user = server_user();
  const uid_t uid = user != nullptr ? user->pw_uid : ::getuid();
  const gid_t gid = user != nullptr ? user->pw_gid : ::getgid();
  const pid_t child = ::fork();
  if (child != 0) return child;
  const int out = ::open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  ::dup2(out, STDOUT_FILENO);
  ::dup2(out, STDERR_FILENO);
  if (user != nullptr &&
      (::setgroups(0, nullptr) != 0 || ::setgid(gid) != 0 || ::setuid(uid) != 0)) {
    ::_exit(126);
  }
  if (::chdir("/") != 0) ::_exit(126);
  if (dies_with_us) ::prctl(PR_SET_PDEATHSIG, SIGQUIT);
  ::execv(argv[0], argv.data());
  ::_exit(127);
}

std::string text_of(const fs::path& path) {
  std::ifstream file{path};
  return {std::istreambuf_iterator<char>{file}, {}};
}

}  // namespace

TestServer& TestServer::instance() {
  static TestServer server;
  return server;
}

bool TestServer::available() { return !programs().empty(); }

TestServer::TestServer() : port_(stores::free_port()), owner_(::getpid()) {
  if (const passwd* const user = server_user()) {
    if (::chown(directory_.path().c_str(), user->pw_uid, user->pw_gid) != 0) {
      throw std::runtime_error("no directory for the server's user");
    }
  }
  const fs::path log = directory_.path() / "log";
  const std::string data = directory_ / "data";
  const pid_t make = spawn({(programs() / "initdb").string(), "-D", data, "-U", "tenure", "-A",
                            "trust", "-E", "UTF8", "--no-locale", "--no-sync"},
                           log, true);
  int status = 0;
  ::waitpid(make, &status, 0);
  if (status != 0) throw std::runtime_error("initdb failed: " + text_of(log));
  std::ofstream{fs::path{data} / "pg_hba.conf"} << "local all all trust\n"
                                                   "host all locked 127.0.0.1/32 scram-sha-256\n"
                                                   "host all all 127.0.0.1/32 trust\n";
  std::ofstream{fs::path{data} / "postgresql.auto.conf"}
      << "listen_addresses='127.0.0.1'\nport=" << port_ << "\nunix_socket_directories='"
      << directory_.path().string()
      << "'\ndefault_transaction_isolation='repeatable read'\nsynchronous_commit=off\n"
         "fsync=off\nmax_connections=100\nrestart_after_crash=on\nautovacuum_naptime=5s\n";
  start();
  sql("CREATE ROLE locked LOGIN PASSWORD 'opensesame'; CREATE ROLE guest LOGIN");
}

TestServer::~TestServer() {
  if (::getpid() != owner_) return;
  stop(SIGQUIT);
}

void TestServer::start() {
  const fs::path log = directory_.path() / "log";
  const auto until = std::chrono::steady_clock::now() + start_limit;
  // After a kill, its children take a moment to notice and to let go of their memory.
  while (std::chrono::steady_clock::now() < until) {
    pid_ = spawn({(programs() / "postgres").string(), "-D", directory_ / "data"}, log, true);
    while (::waitpid(pid_, nullptr, WNOHANG) == 0) {
      if (answers()) return;
      std::this_thread::sleep_for(10ms);
    }
    std::this_thread::sleep_for(100ms);
  }
  throw std::runtime_error("the server does not start: " + text_of(log));
}

void TestServer::stop(int signal) {
  if (pid_ == 0) return;
  ::kill(pid_, signal);
  ::waitpid(pid_, nullptr, 0);
  pid_ = 0;
}

bool TestServer::answers() const { return PQping(url().c_str()) == PQPING_OK; }

std::string TestServer::url(std::string_view user) const {
  return "postgres://" + std::string{user} + "@127.0.0.1:" + std::to_string(port_) +
         "/postgres?sslmode=disable&gssencmode=disable";
}

std::string TestServer::sql(const std::string& text, std::string_view user) const {
  struct Finish {
    void operator()(PGconn* connection) const noexcept { PQfinish(connection); }
  };
  struct Free {
    void operator()(PGresult* result) const noexcept { PQclear(result); }
  };
  const std::unique_ptr<PGconn, Finish> connection{PQconnectdb(url(user).c_str())};
  const std::unique_ptr<PGresult, Free> result{PQexec(connection.get(), text.c_str())};
  const ExecStatusType status = PQresultStatus(result.get());
  if (status != PGRES_TUPLES_OK && status != PGRES_COMMAND_OK) {
    throw std::runtime_error(PQerrorMessage(connection.get()));
  }
  return PQntuples(result.get()) > 0 ? PQgetvalue(result.get(), 0, 0) : "";
}

TestSchema::TestSchema() : owner_(::getpid()) {
  TestServer::instance();  // Now: not by a thread, or a child, that the server would end with.
  static std::atomic<int> count = 0;
  name_ = "case_" + std::to_string(++count);
}

TestSchema::~TestSchema() {
  if (::getpid() != owner_) return;
  try {
    TestServer::instance().sql("SET client_min_messages=error; DROP SCHEMA IF EXISTS " + name_ +
                               " CASCADE");
  } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch)
    // It goes with the server.
  }
}

}  // namespace tenure::postgres
