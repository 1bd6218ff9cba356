#include "tests/kit/pgbouncer.hpp"

#include <filesystem>
#include <fstream>

namespace tenure::kit {

PgBouncer::PgBouncer(const Postgres& server) : Server("pgbouncer", free_port()) {
  const std::filesystem::path settings = directory() / "pgbouncer.ini";
  std::ofstream{settings} << "[databases]\n* = host=127.0.0.1 user=tenure port=" << server.port()
                          << "\n[pgbouncer]\nlisten_addr=127.0.0.1\nlisten_port=" << port()
                          << "\nunix_socket_dir=\nauth_type=any\npool_mode=transaction\n"
                             "default_pool_size=4\nmax_client_conn=200\n";
  // It runs as an ordinary user, who must be able to read the file.
  std::filesystem::permissions(directory().path(), std::filesystem::perms{0755});
  set_program({.words = {"pgbouncer", "-q", settings.string()}, .as_ordinary_user = true}, SIGKILL);
  start();
  await_ready();
}

bool PgBouncer::ready() const { return accepts_connections("127.0.0.1", port()); }

}  // namespace tenure::kit
