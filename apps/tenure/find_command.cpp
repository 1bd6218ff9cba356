#include "find_command.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string_view>

#include "environment.hpp"
#include "exit_status.hpp"

namespace tenure::cli {
namespace {

int look_at(const std::string& file) {
  struct stat status{};
  if (::stat(file.c_str(), &status) != 0) {
    return errno == EACCES ? exit_not_executable : exit_not_found;
  }
  const bool runs = S_ISREG(status.st_mode) && ::access(file.c_str(), X_OK) == 0;
  return runs ? exit_ok : exit_not_executable;
}

}  // namespace

int find_command(const std::string& name) {
  if (name.empty()) return exit_not_found;
  if (name.contains('/')) return look_at(name);
  std::string_view path = environment("PATH");
  if (path.empty()) path = "/bin:/usr/bin";  // As execvp does.
  int worst = exit_not_found;
  for (;;) {
    const std::string_view directory = path.substr(0, path.find(':'));
    std::string file{directory.empty() ? "." : directory};
    const int result = look_at(file.append("/").append(name));
    if (result == exit_ok) return exit_ok;
    if (result == exit_not_executable) worst = result;
    if (directory.size() == path.size()) return worst;
    path.remove_prefix(directory.size() + 1);
  }
}

}  // namespace tenure::cli
