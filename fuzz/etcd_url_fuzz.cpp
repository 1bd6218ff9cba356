// Any bytes as the URL of an etcd store.
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <string>
#include <string_view>

#include "store/etcd/address.hpp"
#include "tenure/error.hpp"

namespace {

void require(bool holds, std::string_view what) {
  if (holds) return;
  std::cerr << "etcd_url_fuzz: " << what << '\n';
  std::abort();
}

constexpr std::string_view secret = "correct-horse";

bool tells(std::string_view text) { return text.find(secret) != std::string_view::npos; }

void parse(std::string_view url) {
  using tenure::etcd::Address;
  try {
    const Address address = tenure::etcd::parse_address(url);
    require(tenure::etcd::is_address(url), "what is no address was taken for one");
    require(!address.endpoints.empty() && address.endpoints.size() <= 64, "no endpoint, or many");
    for (const std::string& one : address.endpoints) {
      const std::size_t colon = one.rfind(':');
      require(colon != 0 && colon != std::string::npos, "no host, or no port");
    }
    require(!address.prefix.empty() && address.prefix.size() <= 1024, "no prefix, or a long one");
    require(address.prefix.find('\0') == std::string::npos, "a prefix that reaches into another");
    require(address.cert_file.empty() == address.key_file.empty(), "half of mutual TLS");
    require(address.password.empty() || !address.user.empty(), "a password of nobody");
    require(address.timeout > std::chrono::milliseconds{0}, "no time");
    require(!tells(address.text()), "the password is told");
  } catch (const tenure::Error& error) {
    require(std::string_view{error.what()}.size() > 0, "no reason");
    require(!tells(error.what()), "the password is told");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(data, data + size);
  if (text.find("password_file") != std::string::npos) return 0;  // It reads any file.
  if (tells(text)) return 0;                                      // Not as a password, perhaps.
  parse(text);
  parse("etcd://" + text);
  parse("etcds://user:" + std::string{secret} + "@" + text);
  return 0;
}
