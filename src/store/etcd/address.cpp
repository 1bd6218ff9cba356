#include "store/etcd/address.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <fstream>
#include <map>
#include <optional>
#include <system_error>
#include <utility>

#include "tenure/error.hpp"

namespace tenure::etcd {
namespace {

constexpr std::string_view plain_scheme = "etcd://";
constexpr std::string_view tls_scheme = "etcds://";
constexpr std::string_view default_port = "2379";
constexpr std::string_view default_prefix = "tenure";
constexpr std::size_t max_endpoints = 64;
constexpr std::size_t max_prefix = 1024;
constexpr std::chrono::milliseconds max_timeout{600'000};

[[noreturn]] void refuse(const std::string& why) {
  throw Error("the etcd URL " + why + ": use etcd://host:2379,host2:2379/prefix?name=value");
}

std::string decode(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out += text[i];
      continue;
    }
    unsigned byte = 0;
    const std::string_view digits = text.substr(i + 1, 2);
    const auto [end, error] =
        std::from_chars(digits.data(), digits.data() + digits.size(), byte, 16);
    if (digits.size() != 2 || error != std::errc{} || end != digits.data() + digits.size()) {
      refuse("has a '%' that is not followed by two hexadecimal digits");
    }
    out += static_cast<char>(byte);
    i += 2;
  }
  return out;
}

// Removes and returns what comes before the first `end`; `text` keeps what comes after it.
std::optional<std::string_view> take_until(std::string_view& text, char end) {
  const std::size_t at = text.find(end);
  if (at == std::string_view::npos) return std::nullopt;
  const std::string_view before = text.substr(0, at);
  text.remove_prefix(at + 1);
  return before;
}

std::string endpoint(std::string_view text) {
  const bool bracketed = text.starts_with('[');
  const std::size_t behind = bracketed ? text.find(']') : std::size_t{0};
  if (behind == std::string_view::npos) refuse("has a '[' without a matching ']'");
  const std::size_t colon = text.find(':', behind);
  const std::string_view port =
      colon == std::string_view::npos ? default_port : text.substr(colon + 1);
  const std::string host = decode(text.substr(0, colon));
  unsigned number = 0;
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), number);
  if (error != std::errc{} || end != port.data() + port.size() || number == 0 || number > 65535) {
    refuse("has a port that is not a number from 1 to 65535");
  }
  if (host.empty()) refuse("names no host");
  return host + ':' + std::string{port};
}

std::chrono::milliseconds parse_timeout(const std::string& text) {
  std::int64_t number = 0;
  const char* const last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, number);
  const std::string_view unit{end, static_cast<std::size_t>(last - end)};
  if (error != std::errc{} || number <= 0 || number > max_timeout.count() ||
      (unit != "ms" && unit != "s")) {
    refuse("has a timeout that is not a time such as 500ms or 5s");
  }
  const std::chrono::milliseconds time{unit == "s" ? number * 1000 : number};
  if (time > max_timeout) refuse("has a timeout of more than 10 minutes");
  return time;
}

bool parse_flag(const std::string& text) {
  if (text == "yes" || text == "true" || text == "1") return true;
  if (text == "no" || text == "false" || text == "0") return false;
  refuse("has a tls= that is neither yes nor no");
}

std::string first_line(const std::string& path) {
  std::ifstream file{path};
  std::string line;
  if (!std::getline(file, line)) refuse("names a password_file that can't be read, '" + path + "'");
  return line;
}

bool is_option(std::string_view name) {
  constexpr std::array<std::string_view, 8> names = {
      "ca", "cert", "key", "user", "password", "tls", "timeout", "password_file"};
  return std::ranges::find(names, name) != names.end();
}

// NOLINTNEXTLINE(bugprone-easily-swappable-parameters): as in the URL.
void set_option(Address& address, const std::string& name, std::string value) {
  const std::map<std::string, std::string*> texts = {
      {"ca", &address.ca_file}, {"cert", &address.cert_file},    {"key", &address.key_file},
      {"user", &address.user},  {"password", &address.password},
  };
  if (const auto at = texts.find(name); at != texts.end()) {
    *at->second = std::move(value);
  } else if (name == "tls") {
    address.tls = parse_flag(value) || address.tls;
  } else if (name == "timeout") {
    address.timeout = parse_timeout(value);
  } else if (name == "password_file") {
    address.password = first_line(value);
  } else {
    refuse("has an unknown option '" + name + "'");
  }
}

void parse_options(Address& address, std::string_view options) {
  const bool may_be_password = options.contains('@');  // A password that contains a '?'.
  while (!options.empty()) {
    const std::size_t end = std::min(options.find('&'), options.size());
    std::string_view one = options.substr(0, end);
    options.remove_prefix(std::min(end + 1, options.size()));
    const auto name = take_until(one, '=');
    if (!name) refuse("has an option without a value");
    if (may_be_password && !is_option(*name)) {
      refuse("has an unknown option, or a password whose '?' and '@' must be written %3F and %40");
    }
    set_option(address, std::string{*name}, decode(one));
  }
}

void parse_hosts(Address& address, std::string_view hosts) {
  if (const std::size_t at = hosts.rfind('@'); at != std::string_view::npos) {
    std::string_view who = hosts.substr(0, at);
    hosts.remove_prefix(at + 1);
    if (const auto user = take_until(who, ':')) {
      address.user = decode(*user);
      address.password = decode(who);
    } else {
      address.user = decode(who);
    }
  }
  for (bool more = true; more;) {
    const auto one = take_until(hosts, ',');
    more = one.has_value();
    address.endpoints.push_back(endpoint(one.value_or(hosts)));
  }
  if (address.endpoints.size() > max_endpoints) refuse("has more than 64 hosts");
}

}  // namespace

std::string Address::text() const {
  std::string out{tls ? tls_scheme : plain_scheme};
  for (const std::string& one : endpoints) {
    if (&one != endpoints.data()) out += ',';
    out += one;
  }
  return out + '/' + prefix;
}

bool is_address(std::string_view url) noexcept {
  return url.starts_with(plain_scheme) || url.starts_with(tls_scheme);
}

Address parse_address(std::string_view url) {
  Address address;
  address.tls = url.starts_with(tls_scheme);
  if (!is_address(url)) refuse("does not begin with etcd:// or etcds://");
  url.remove_prefix(address.tls ? tls_scheme.size() : plain_scheme.size());
  std::string_view rest = url;
  std::string_view options;
  if (const std::size_t at = rest.find('?'); at != std::string_view::npos) {
    options = rest.substr(at + 1);
    rest = rest.substr(0, at);
  }
  const auto hosts = take_until(rest, '/');
  address.prefix = hosts ? decode(rest) : std::string{};
  if (address.prefix.empty()) address.prefix = default_prefix;
  if (address.prefix.find('\0') != std::string::npos || address.prefix.size() > max_prefix) {
    refuse("has a prefix that contains a zero byte or is longer than 1024 bytes");
  }
  parse_hosts(address, hosts.value_or(rest));
  parse_options(address, options);
  if (address.cert_file.empty() != address.key_file.empty()) {
    refuse("has only one of cert= and key=, but mutual TLS needs both");
  }
  if (!address.ca_file.empty() || !address.cert_file.empty()) address.tls = true;
  if (!address.password.empty() && address.user.empty()) refuse("has a password but no user name");
  return address;
}

}  // namespace tenure::etcd
