#include "store/session_entry.hpp"

#include <unistd.h>

#include <array>
#include <climits>
#include <fstream>
#include <nlohmann/json.hpp>

#include "core/escape.hpp"

namespace tenure::stores {
namespace {

std::string host_name() {
  std::array<char, HOST_NAME_MAX + 1> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) return {};
  return name.data();
}

}  // namespace

std::string boot_id() {
  std::string id;
  std::ifstream{"/proc/sys/kernel/random/boot_id"} >> id;
  return id;
}

std::string session_entry(std::string_view label, Instant since) {
  const nlohmann::json entry = {
      {"host", as_utf8(host_name())},
      {"pid", ::getpid()},
      {"boot", boot_id()},
      {"label", as_utf8(label)},
      {"since", since.time_since_epoch().count()},
  };
  return entry.dump();
}

std::string session_id(std::uint64_t number) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string id(16, '0');
  for (std::size_t i = id.size(); i-- > 0; number >>= 4U) id[i] = digits[number & 15U];
  return id;
}

}  // namespace tenure::stores
