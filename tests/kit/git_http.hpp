// git_http.hpp: repositories over smart HTTP: git's own http-backend behind a small server in
// Python, which ends with its object.
#pragma once

#include <filesystem>
#include <string>

#include "tests/kit/server.hpp"

namespace tenure::kit {

class GitHttp : public Server {
 public:
  // Serves the repositories below `root`. With a `user`, it asks for that name and `password`.
  // Without one, it does not accept a push unless the repository allows that to everybody.
  explicit GitHttp(const std::filesystem::path& root, const std::string& user = {},
                   const std::string& password = {});
  [[nodiscard]] bool ready() const override;
  [[nodiscard]] std::string url(const std::string& repository) const;
};

}  // namespace tenure::kit
