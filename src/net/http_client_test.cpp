// The client against a server that misbehaves.
#include "net/http_client.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include "tests/kit/http_server.hpp"
#include "tests/kit/message.hpp"
#include "tests/kit/patience.hpp"
#include "tests/kit/scratch.hpp"

namespace tenure::net {
namespace {

using namespace std::chrono_literals;
using kit::http_answer;
using kit::HttpServer;
using Kind = HttpError::Kind;

HttpRequest to(const HttpServer& server, const std::string& path = "/") {
  HttpRequest request{.url = server.url(path)};
  request.base = 1ns;  // No pause to speak of.
  return request;
}

Kind kind_of(const HttpResult& result) {
  EXPECT_FALSE(result.has_value()) << "status " << result->status;
  return result.error().kind;
}

TEST(HttpClient, GetsABodyAndKeepsTheConnection) {
  HttpServer server{[](HttpServer::Connection& client) {
    client.answer(http_answer(200, "hello " + client.path(), "X-Odd:  yes \r\n"));
  }};
  HttpClient client;
  for (int i = 0; i < 5; ++i) {
    const HttpResult result = client.get(to(server, "/a?b=" + std::to_string(i)));
    ASSERT_TRUE(result.has_value()) << result.error().message;
    EXPECT_EQ(result->status, 200U);
    EXPECT_EQ(result->body, "hello /a?b=" + std::to_string(i));
    EXPECT_EQ(result->headers.at("x-odd"), "yes");
    EXPECT_EQ(result->attempts, 1U);
  }
  EXPECT_EQ(server.connections(), 1U);
}

TEST(HttpClient, AStatusThatIsNotTransientIsAnAnswer) {
  HttpServer server{[](HttpServer::Connection& client) { client.answer(http_answer(404, "")); }};
  HttpClient client;
  const HttpResult result = client.get(to(server));
  ASSERT_TRUE(result.has_value());
  EXPECT_EQ(result->status, 404U);
  EXPECT_EQ(server.requests(), 1U);
}

TEST(HttpClient, RetriesTransientStatusesResetsAndSilence) {
  std::atomic<int> turn = 0;
  HttpServer server{[&](HttpServer::Connection& client) {
    switch (turn++) {
      case 0: client.answer(http_answer(503, "")); break;
      case 1: client.reset(); break;
      case 2:
        client.answer("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf"), client.reset();
        break;
      case 3: break;  // Not a word.
      default: client.answer(http_answer(200, "at last"));
    }
  }};
  HttpClient client;
  HttpRequest request = to(server);
  request.retries = 10;
  request.timeout = 500ms;
  const HttpResult result = client.get(request);
  ASSERT_TRUE(result.has_value()) << result.error().message;
  EXPECT_EQ(result->body, "at last");
  EXPECT_GE(result->attempts, 4U);  // libcurl itself goes on where a kept connection was reset.
  EXPECT_GE(server.requests(), 5U);
}

TEST(HttpClient, EachTransientStatusIsTriedFourTimes) {
  for (const int status : {429, 500, 502, 503, 504}) {
    HttpServer server{
        [status](HttpServer::Connection& client) { client.answer(http_answer(status, "no")); }};
    HttpClient client;
    const HttpResult result = client.get(to(server));
    ASSERT_TRUE(result.has_value());
    EXPECT_EQ(result->status, static_cast<std::uint32_t>(status));
    EXPECT_EQ(result->attempts, 4U);
    EXPECT_EQ(server.requests(), 4U);
  }
}

// Clocks that only the test moves.
struct Clocks {
  std::atomic<std::int64_t> boot = 1'000'000'000;
  std::atomic<std::int64_t> wall_seconds = 784'111'777;  // Sun, 06 Nov 1994 08:49:37 GMT

  [[nodiscard]] HttpClientOptions options() {
    HttpClientOptions options;
    options.now = [this] { return base::BootTime{boot.load()}; };
    options.wall_time = [this] {
      return std::chrono::system_clock::time_point{std::chrono::seconds{wall_seconds.load()}};
    };
    options.seed = 1;
    return options;
  }
};

void expect_waits_a_minute(const std::string& header) {
  Clocks clocks;
  const std::int64_t begin = clocks.boot;
  std::atomic<std::int64_t> second = 0;  // When it came.
  HttpServer server{[&](HttpServer::Connection& client) {
    if (second.exchange(clocks.boot) == 0) {
      client.answer(http_answer(429, "", "Retry-After: " + header + "\r\n"));
    } else {
      client.answer(http_answer(200, "now"));
    }
  }};
  HttpClient client{clocks.options()};
  std::promise<HttpResult> ended;
  auto end = ended.get_future();
  client.start(to(server), [&](HttpResult result) { ended.set_value(std::move(result)); });
  kit::until([&] {
    if (server.requests() > 0) clocks.boot += std::chrono::nanoseconds{1s}.count();
    client.wake();
    return end.wait_for(0s) == std::future_status::ready;
  });
  EXPECT_EQ(end.get()->attempts, 2U);
  EXPECT_GE(second - begin, std::chrono::nanoseconds{60s}.count());
}

TEST(HttpClient, WaitsAsLongAsRetryAfterSays) {
  expect_waits_a_minute("60");
  expect_waits_a_minute("Sun, 06 Nov 1994 08:50:37 GMT");
}

TEST(HttpClient, DoesNotWaitLongerThanIsAllowed) {
  HttpServer server{[](HttpServer::Connection& client) {
    client.answer(http_answer(503, "", "Retry-After: 86400\r\n"));
  }};
  HttpClient client;
  const HttpResult result = client.get(to(server));
  ASSERT_TRUE(result.has_value());
  EXPECT_EQ(result->status, 503U);
  EXPECT_EQ(result->attempts, 1U);
}

// S25: backoff held its slot.
TEST(HttpClient, S25_ARetryThatWaitsFreesItsSlot) {
  HttpServer server{[&](HttpServer::Connection& client) {
    client.answer(client.path() == "/busy" ? http_answer(503, "", "Retry-After: 60\r\n")
                                           : http_answer(200, ""));
  }};
  Clocks clocks;
  HttpClientOptions options = clocks.options();
  options.connections = 1;
  std::atomic<int> cancelled = 0;
  {
    HttpClient client{options};
    for (int i = 0; i < 5; ++i) {
      client.start(to(server, "/busy"), [&](const HttpResult& result) {
        if (kind_of(result) == Kind::cancelled) ++cancelled;
      });
    }
    EXPECT_EQ(client.get(to(server, "/free"))->status, 200U);
  }
  EXPECT_EQ(cancelled, 5);
}

TEST(HttpClient, UsesAtMostTenConnections) {
  std::atomic<int> inside = 0;
  std::atomic<int> most = 0;
  std::atomic<bool> opened = false;
  std::promise<void> full;
  std::shared_future<void> is_full = full.get_future();
  HttpServer server{[&](HttpServer::Connection& client) {
    const int now = ++inside;
    int seen = most.load();
    while (seen < now && !most.compare_exchange_weak(seen, now)) {
    }
    if (!opened) {  // The first ten wait for each other.
      if (now == 10) {
        opened = true;
        full.set_value();
      }
      is_full.wait();
    }
    --inside;
    client.answer(http_answer(200, ""));
  }};
  HttpClient client;
  std::atomic<int> ended = 0;
  for (int i = 0; i < 50; ++i) {
    client.start(to(server), [&](const HttpResult& result) {
      if (result.has_value()) ++ended;
    });
  }
  kit::until([&] { return ended == 50; });
  EXPECT_EQ(most, 10);
  EXPECT_LE(server.connections(), 10U);
}

TEST(HttpClient, BoundsTheBody) {
  HttpServer server{[](HttpServer::Connection& client) {
    client.answer("HTTP/1.1 200 OK\r\n\r\n");
    while (client.answer(std::string(65'536, 'x'))) {
    }  // Endless.
  }};
  HttpClient client;
  HttpRequest request = to(server);
  request.max_body = 1 << 20;
  EXPECT_EQ(kind_of(client.get(request)), Kind::too_large);
  request.ignore_body = true;
  const HttpResult result = client.get(request);
  ASSERT_TRUE(result.has_value()) << "the status is all that was asked for";
  EXPECT_EQ(result->status, 200U);
  EXPECT_EQ(result->body, "");
}

TEST(HttpClient, ASlowBodyTimesOut) {
  std::atomic<bool> enough = false;
  HttpServer server{[&](HttpServer::Connection& client) {
    client.answer("HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n");
    while (!enough && !client.closed() && client.answer("x")) std::this_thread::yield();
  }};
  HttpClient client;
  HttpRequest request = to(server);
  request.timeout = 50ms;
  request.retries = 1;
  const HttpResult result = client.get(request);
  enough = true;
  EXPECT_EQ(kind_of(result), Kind::timeout);
  EXPECT_EQ(result.error().attempts, 2U);
  EXPECT_TRUE(kit::contains(result.error().message, "GET '" + request.url + "' failed: "));
}

TEST(HttpClient, BoundsRedirects) {
  HttpServer server{[](HttpServer::Connection& client) {
    if (client.path() == "/once") {
      client.answer(http_answer(302, "", "Location: /there\r\n"));
    } else if (client.path() == "/there") {
      client.answer(http_answer(200, "there"));
    } else if (client.path() == "/file") {
      client.answer(http_answer(302, "", "Location: file:///etc/passwd\r\n"));
    } else {
      client.answer(http_answer(302, "", "Location: /round\r\n"));
    }
  }};
  HttpClient client;
  EXPECT_EQ(client.get(to(server, "/once"))->url, server.url("/there"));
  EXPECT_EQ(kind_of(client.get(to(server, "/round"))), Kind::redirects);
  EXPECT_EQ(kind_of(client.get(to(server, "/file"))), Kind::redirects);
}

TEST(HttpClient, RefusedConnectionsAreRetriedAndReported) {
  HttpClient client;
  HttpRequest request{.url = "http://user:secret@127.0.0.1:" + std::to_string(kit::free_port())};
  request.base = 1ns;
  const HttpResult result = client.get(request);
  EXPECT_EQ(kind_of(result), Kind::connect);
  EXPECT_EQ(result.error().attempts, 4U);
  EXPECT_FALSE(kit::contains(result.error().message, "secret")) << result.error().message;
}

TEST(HttpClient, RefusesBadRequestsAtOnce) {
  HttpClient client;
  EXPECT_EQ(kind_of(client.get({.url = "ftp://127.0.0.1/"})), Kind::bad_request);
  EXPECT_EQ(kind_of(client.get({.url = "http://"})), Kind::bad_request);
  EXPECT_EQ(kind_of(client.get({.url = ""})), Kind::bad_request);
  HttpRequest request{.url = "http://127.0.0.1:1/"};
  request.headers = {{"A", "b\r\nC: d"}};
  EXPECT_EQ(kind_of(client.get(request)), Kind::bad_request);
}

TEST(HttpClient, AnAnswerThatIsNotHttpIsAnError) {
  HttpServer server{[](HttpServer::Connection& client) {
    client.answer("220 mail.example ESMTP\r\n");
    client.close();
  }};
  HttpClient client;
  HttpRequest request = to(server);
  request.retries = 0;
  EXPECT_FALSE(client.get(request).has_value());
}

TEST(HttpClient, CancelEndsARequestOnce) {
  HttpServer server{[](HttpServer::Connection&) {}};
  HttpClient client;
  std::atomic<int> ended = 0;
  const auto id = client.start(to(server), [&](const HttpResult& result) {
    EXPECT_EQ(kind_of(result), Kind::cancelled);
    ++ended;
  });
  kit::until([&] { return server.requests() == 1; });
  client.cancel(id);
  client.cancel(id);
  client.cancel(id + 1);
  kit::until([&] { return ended == 1; });
}

TEST(HttpClient, GoesThroughAProxyAsCurlDoes) {
  HttpServer proxy{[](HttpServer::Connection& client) {
    client.answer(http_answer(200, "proxied " + client.path()));
  }};
  ::setenv("http_proxy", proxy.url("").c_str(), 1);  // NOLINT(concurrency-mt-unsafe): no threads.
  {
    HttpClient client;
    const HttpResult result = client.get({.url = "http://tenure.invalid/x"});
    ASSERT_TRUE(result.has_value()) << result.error().message;
    EXPECT_EQ(result->body, "proxied http://tenure.invalid/x");
  }
  ::unsetenv("http_proxy");  // NOLINT(concurrency-mt-unsafe): no threads.
}

TEST(HttpClient, HeadHasNoBody) {
  HttpServer server{[](HttpServer::Connection& client) {
    EXPECT_TRUE(client.head().starts_with("HEAD "));
    client.answer("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n");
  }};
  HttpClient client;
  HttpRequest request = to(server);
  request.head = true;
  const HttpResult result = client.get(request);
  ASSERT_TRUE(result.has_value());
  EXPECT_EQ(result->body, "");
}

}  // namespace
}  // namespace tenure::net
