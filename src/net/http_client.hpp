// http_client.hpp: GET and HEAD over a pool of connections, with retries.
//
//   queued ──a slot is free──► running ──answered──► ended
//                                 │  ▲
//            refused, reset, slow,│  │ the pause is over, and a slot is free
//            429, 500, 502–504    ▼  │
//                              waiting ──no retry left, cancelled──► ended
//
// Invariants:
//   1. A request ends exactly once, with one call of its callback.
//   2. At most `connections` requests run at a time. A request that waits for a retry has no slot.
//   3. After the last attempt there is no pause.
//   4. A callback never runs inside start() or cancel(), and none runs after the destructor.
//
// Retries, pauses and Retry-After: retry.hpp. Redirects go to http and https only. Proxies
// (http_proxy, no_proxy, ...), TLS and HTTP/2 are libcurl's.
//
// Thread safety: all of it; callbacks run on the client's one thread, one after another, and may
// call start() and cancel(), but not get() and the destructor. They must not throw, and must not
// start() again when they get `cancelled`: the destructor would never return.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <expected>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "base/boot_clock.hpp"

namespace tenure::net {

// NOLINTBEGIN(readability-redundant-member-init): designated initializers may leave them out.

struct HttpRequest {
  std::string url;
  bool head = false;         // HEAD instead of GET.
  bool ignore_body = false;  // A body of any size will do: it is not kept.
  std::uint32_t retries = 3;
  std::chrono::nanoseconds timeout = std::chrono::seconds{30};  // Of one attempt.
  std::chrono::nanoseconds base = std::chrono::seconds{1};      // The longest first pause; doubles.
  std::chrono::nanoseconds cap = std::chrono::seconds{60};      // The longest pause.
  // A server that asks for a longer pause (Retry-After) is not asked again.
  std::chrono::nanoseconds max_retry_after = std::chrono::minutes{10};
  std::uint32_t max_redirects = 10;
  std::size_t max_body = 8U << 20U;  // Bytes.
  std::map<std::string, std::string> headers{};
};

struct HttpResponse {
  std::uint32_t status = 0;
  std::string body{};
  std::map<std::string, std::string> headers{};  // Of the last answer; names in lower case.
  std::string url{};                             // After redirects.
  std::uint32_t attempts = 0;
};

struct HttpError {
  enum class Kind : std::uint8_t {
    bad_request,  // The URL or a header is wrong.
    connect,      // No connection, or it was reset.
    timeout,
    tls,
    redirects,  // Too many, or to another protocol.
    too_large,
    protocol,  // The answer was not HTTP.
    cancelled,
  };
  Kind kind = Kind::connect;
  std::string message{};  // What failed, with which URL, why, and what to do.
  std::uint32_t attempts = 0;
};

using HttpResult = std::expected<HttpResponse, HttpError>;

struct HttpClientOptions {
  std::size_t connections = 10;
  // Whom to trust. Empty: CURL_CA_BUNDLE or SSL_CERT_FILE, as the curl program has it; else
  // libcurl's own.
  std::string ca_file{};
  // Retries are timed by these. A test that moves them calls wake().
  std::function<base::BootTime()> now = base::boot_time;
  std::function<std::chrono::system_clock::time_point()> wall_time = std::chrono::system_clock::now;
  std::uint64_t seed = 0;  // Of the jitter. 0: random.
};

// NOLINTEND(readability-redundant-member-init)

class HttpClient {
 public:
  using Id = std::uint64_t;
  using Callback = std::function<void(HttpResult result)>;
  static constexpr std::size_t max_requests = 100'000;  // That have not ended.

  explicit HttpClient(HttpClientOptions options = {});  // Throws Error without a thread.
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;
  ~HttpClient();  // Cancels what has not ended, and returns after the last callback.

  // Throws BadRequest where max_requests have not ended. Other errors come with the callback.
  Id start(HttpRequest request, Callback callback);
  void cancel(Id id);  // The callback gets Kind::cancelled; nothing where the request has ended.
  [[nodiscard]] HttpResult get(HttpRequest request);  // start(), and wait for the end.
  void wake();                                        // The clocks of the options have moved.

 private:
  class Loop;
  std::unique_ptr<Loop> loop_;
};

}  // namespace tenure::net
