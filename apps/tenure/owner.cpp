#include "owner.hpp"

#include <fmt/core.h>
#include <pwd.h>
#include <sys/random.h>
#include <sys/types.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <string_view>
#include <system_error>

#include "cli.hpp"
#include "environment.hpp"
#include "terminal.hpp"

namespace tenure::cli {
namespace {

// "ann-0123456789ab": shows whose lock it is, and is unique.
std::string new_owner_name() {
  std::uint64_t number = 0;
  if (::getrandom(&number, sizeof number, 0) != static_cast<ssize_t>(sizeof number)) {
    throw std::system_error(errno, std::generic_category(), "getrandom");
  }
  const passwd* const user = ::getpwuid(::geteuid());  // NOLINT(concurrency-mt-unsafe): main thread
  const std::string name = user != nullptr ? user->pw_name : std::to_string(::geteuid());
  return fmt::format("{}-{:012x}", name, number & 0xffff'ffff'ffffU);
}

}  // namespace

Owner new_owner(const std::string& command) {
  const std::string_view parent = environment("TENURE_OWNER");
  if (parent.empty()) return Owner{new_owner_name()};
  const auto path = Path::parse(parent);
  if (!path) {
    throw UsageError(
        "TENURE_OWNER is not valid, unset it: " + printable(path.error().message(parent)), command);
  }
  return Owner{*path}.child(new_owner_name());
}

}  // namespace tenure::cli
