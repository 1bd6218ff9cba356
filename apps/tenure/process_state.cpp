#include "process_state.hpp"

#include <unistd.h>

#include <array>
#include <fstream>
#include <iterator>
#include <string>

namespace tenure::cli {

bool is_stopped(std::string_view host, std::int64_t pid) {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0 || host != name.data()) return false;
  std::ifstream file{"/proc/" + std::to_string(pid) + "/stat"};
  const std::string stat{std::istreambuf_iterator<char>{file}, {}};
  // "4711 (name) T …": the name may contain anything, parentheses too.
  const std::size_t behind = stat.rfind(')');
  if (behind == std::string::npos || behind + 2 >= stat.size()) return false;
  const char state = stat[behind + 2];
  return state == 'T' || state == 't';
}

}  // namespace tenure::cli
