#include "tests/kit/sshd.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <fstream>

#include "tenure/error.hpp"

namespace tenure::kit {
namespace {

void make_key(const std::filesystem::path& file) {
  run({"ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "test", "-f", file});
}

std::filesystem::path find_sshd() {
  const auto found = find_program("sshd", {"/usr/sbin"});
  if (!found) throw Error("there is no sshd: install openssh-server");
  return *found;
}

}  // namespace

Sshd::Sshd() : Server("sshd", free_port()) {
  // It refuses to start as root without the directory of its privilege separation.
  if (::geteuid() == 0) std::filesystem::create_directories("/run/sshd");
  make_key(directory() / "host_key");
  make_key(key());
  std::filesystem::copy_file(key().string() + ".pub", directory() / "authorized_keys");
  std::ofstream{directory() / "config"}
      << "ListenAddress 127.0.0.1\nPort " << port() << "\nHostKey "
      << (directory() / "host_key").string() << "\nAuthorizedKeysFile "
      << (directory() / "authorized_keys").string()
      << "\nStrictModes no\nUsePAM no\nPidFile none\nPasswordAuthentication no\n"
         "KbdInteractiveAuthentication no\nPermitRootLogin prohibit-password\n"
         "PrintMotd no\nPrintLastLog no\nMaxStartups 100\n";
  std::ifstream host{directory() / "host_key.pub"};
  std::string kind;
  std::string text;
  host >> kind >> text;
  std::ofstream{directory() / "known_hosts"} << "[127.0.0.1]:" << port() << " " << kind << " "
                                             << text << "\n";
  set_program({.words = {find_sshd(), "-D", "-e", "-f", directory() / "config"}}, SIGTERM);
}

bool Sshd::ready() const { return accepts_connections("127.0.0.1", port()); }

std::string Sshd::client(const std::filesystem::path& identity) const {
  std::string out =
      "ssh -F none -o BatchMode=yes -o StrictHostKeyChecking=yes "
      "-o UserKnownHostsFile=" +
      (directory() / "known_hosts").string() + " -o GlobalKnownHostsFile=none";
  if (!identity.empty()) out += " -o IdentitiesOnly=yes -i " + identity.string();
  return out;
}

std::string Sshd::url(const std::filesystem::path& repository) const {
  return "ssh://127.0.0.1:" + std::to_string(port()) + repository.string();
}

SshAgent::SshAgent(const std::filesystem::path& key) : Server("ssh-agent", 0), key_(key) {
  set_program({.words = {"ssh-agent", "-D", "-a", socket()}}, SIGTERM);
}

bool SshAgent::ready() const { return std::filesystem::exists(socket()); }

void SshAgent::load() const {
  run(Program{.words = {"ssh-add", "-q", key_},
              .environment = {"SSH_AUTH_SOCK=" + socket().string()},
              .output = Program::Output::log,
              .log = directory() / "add.log"});
}

}  // namespace tenure::kit
