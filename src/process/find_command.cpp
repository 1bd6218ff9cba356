#include "process/find_command.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <string_view>

namespace tenure::process {
namespace {

int check_file(const std::string& file) {
  struct stat status{};
  if (::stat(file.c_str(), &status) != 0) return errno == EACCES ? EACCES : ENOENT;
  return S_ISREG(status.st_mode) && ::access(file.c_str(), X_OK) == 0 ? 0 : EACCES;
}

}  // namespace

int find_command(const std::string& name) {
  if (name.empty()) return ENOENT;
  if (name.contains('/')) return check_file(name);
  const char* const variable = std::getenv("PATH");  // NOLINT(concurrency-mt-unsafe): see header.
  std::string_view path = variable == nullptr ? "" : variable;
  if (path.empty()) path = "/bin:/usr/bin";  // As execvp does.
  int worst = ENOENT;
  for (;;) {
    const std::string_view directory = path.substr(0, path.find(':'));
    std::string file{directory.empty() ? "." : directory};
    const int result = check_file(file.append("/").append(name));
    if (result == 0) return 0;
    if (result == EACCES) worst = result;
    if (directory.size() == path.size()) return worst;
    path.remove_prefix(directory.size() + 1);
  }
}

}  // namespace tenure::process
