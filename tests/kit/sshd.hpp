// sshd.hpp: an ssh server on the loopback, for the user who runs the test, with keys of its own.
#pragma once

#include <filesystem>
#include <string>

#include "tests/kit/server.hpp"

namespace tenure::kit {

class Sshd : public Server {
 public:
  Sshd();
  [[nodiscard]] bool ready() const override;

  // The private key that it accepts.
  [[nodiscard]] std::filesystem::path key() const { return directory() / "user_key"; }
  // An ssh command for GIT_SSH_COMMAND, which knows nothing of the person who runs the test. Its
  // keys are those of the agent, and `identity`, if it is not empty.
  [[nodiscard]] std::string client(const std::filesystem::path& identity = {}) const;
  [[nodiscard]] std::string url(const std::filesystem::path& repository) const;
};

// An agent that holds the key; SSH_AUTH_SOCK is socket().
class SshAgent : public Server {
 public:
  explicit SshAgent(const std::filesystem::path& key);
  [[nodiscard]] bool ready() const override;
  [[nodiscard]] std::filesystem::path socket() const { return directory() / "agent"; }
  void load() const;

 private:
  std::filesystem::path key_;
};

}  // namespace tenure::kit
