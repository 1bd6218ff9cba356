// The proxy itself, between plain sockets.
#include "tests/kit/proxy.hpp"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include "tests/kit/patience.hpp"

namespace tenure::kit {
namespace {

using namespace std::chrono_literals;

class Socket {
 public:
  explicit Socket(int fd) : fd_(fd) {}
  Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Socket& operator=(Socket&&) = delete;
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  ~Socket() {
    if (fd_ >= 0) ::close(fd_);
  }
  void say(std::string_view text) const {
    ASSERT_EQ(::send(fd_, text.data(), text.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(text.size()));
  }
  // "end" and "reset" are what they say.
  [[nodiscard]] std::string hear() const {
    std::array<char, 100> buffer{};
    const ssize_t size = ::recv(fd_, buffer.data(), buffer.size(), 0);
    if (size < 0) return "reset";
    return size == 0 ? "end" : std::string{buffer.data(), static_cast<std::size_t>(size)};
  }
  void end() const { ::shutdown(fd_, SHUT_WR); }
  [[nodiscard]] bool silent() const {
    pollfd one{.fd = fd_, .events = POLLIN, .revents = 0};
    return ::poll(&one, 1, 0) == 0;
  }
  [[nodiscard]] int fd() const noexcept { return fd_; }

 private:
  int fd_;
};

class ProxyTest : public ::testing::Test {
 protected:
  ProxyTest() : listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    auto* const any = reinterpret_cast<sockaddr*>(&address);
    EXPECT_EQ(::bind(listener_.fd(), any, size), 0);
    EXPECT_EQ(::listen(listener_.fd(), 10), 0);
    EXPECT_EQ(::getsockname(listener_.fd(), any, &size), 0);
    port_ = ntohs(address.sin_port);
  }
  [[nodiscard]] static Socket call(int port) {
    Socket socket{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    // A reset may already be there when the call returns: then nothing will be heard.
    std::ignore = ::connect(socket.fd(), reinterpret_cast<sockaddr*>(&address), sizeof address);
    return socket;
  }
  [[nodiscard]] Socket take() const {
    return Socket{::accept4(listener_.fd(), nullptr, nullptr, SOCK_CLOEXEC)};
  }

  Socket listener_;
  int port_ = 0;
};

TEST_F(ProxyTest, ForwardsBothWaysAndPassesTheEndOn) {
  Proxy proxy{port_};
  const Socket client = call(proxy.port());
  const Socket server = take();
  client.say("question");
  EXPECT_EQ(server.hear(), "question");
  server.say("answer");
  EXPECT_EQ(client.hear(), "answer");
  client.end();
  EXPECT_EQ(server.hear(), "end");
  server.say("last");
  EXPECT_EQ(client.hear(), "last");
}

TEST_F(ProxyTest, ACutIsAResetForBoth) {
  Proxy proxy{port_};
  const Socket client = call(proxy.port());
  const Socket server = take();
  client.say("x");
  EXPECT_EQ(server.hear(), "x");
  proxy.cut();
  EXPECT_EQ(client.hear(), "reset");
  EXPECT_EQ(server.hear(), "reset");
  EXPECT_EQ(proxy.connections(), 0U);
}

// One way is lost; the other goes on; later connections are whole.
TEST_F(ProxyTest, SwallowsOneWay) {
  Proxy proxy{port_};
  const Socket client = call(proxy.port());
  const Socket server = take();
  client.say("x");
  EXPECT_EQ(server.hear(), "x");
  proxy.swallow(Proxy::Way::to_client);
  server.say("lost");
  client.say("heard");
  EXPECT_EQ(server.hear(), "heard");
  EXPECT_TRUE(client.silent());
  const Socket second = call(proxy.port());
  const Socket its_server = take();
  its_server.say("whole");
  EXPECT_EQ(second.hear(), "whole");
  EXPECT_TRUE(client.silent());
  EXPECT_EQ(proxy.connections(), 2U);
}

// A process that dies with unread bytes resets its connection.
TEST_F(ProxyTest, SwallowsAReset) {
  Proxy proxy{port_};
  std::optional<Socket> client{call(proxy.port())};
  const Socket server = take();
  server.say("unread");
  until([&] { return !client->silent(); });
  proxy.swallow(Proxy::Way::to_client);
  proxy.swallow(Proxy::Way::to_server);
  client.reset();
  const Socket second = call(proxy.port());
  const Socket its_server = take();
  second.say("x");  // When this has passed, the proxy has seen the reset.
  EXPECT_EQ(its_server.hear(), "x");
  EXPECT_TRUE(server.silent());
  EXPECT_EQ(proxy.connections(), 2U);
}

TEST_F(ProxyTest, LosesTheQuestionOrTheAnswerOfATurn) {
  Proxy proxy{port_};
  for (const auto way : {Proxy::Way::to_server, Proxy::Way::to_client}) {
    const Socket client = call(proxy.port());
    const Socket server = take();
    proxy.lose(2, way);
    client.say("first");
    EXPECT_EQ(server.hear(), "first");
    server.say("answer");
    EXPECT_EQ(client.hear(), "answer");
    client.say("second");
    if (way == Proxy::Way::to_client) {
      EXPECT_EQ(server.hear(), "second");
      server.say("lost");
    }
    EXPECT_EQ(client.hear(), "reset");
    EXPECT_EQ(server.hear(), "reset");
    EXPECT_TRUE(proxy.has_lost());
    proxy.lose(1, way);
    EXPECT_FALSE(proxy.has_lost());
  }
}

TEST_F(ProxyTest, ASilentDoorTakesAndSaysNothing) {
  Proxy proxy{port_};
  proxy.door(Proxy::Door::silent);
  const Socket client = call(proxy.port());
  const Socket server = take();
  client.say("x");
  until([&] { return proxy.connections() == 1; });
  EXPECT_TRUE(server.silent());
  proxy.door(Proxy::Door::shut);
  EXPECT_EQ(call(proxy.port()).hear(), "reset");
  proxy.door(Proxy::Door::open);
  const Socket second = call(proxy.port());
  const Socket its_server = take();
  second.say("again");
  EXPECT_EQ(its_server.hear(), "again");
}

TEST_F(ProxyTest, DelayedBytesComeLaterAndInOrder) {
  Proxy proxy{port_};
  const Socket client = call(proxy.port());
  const Socket server = take();
  proxy.delay(50ms);
  const auto begin = std::chrono::steady_clock::now();
  client.say("a");
  EXPECT_EQ(server.hear(), "a");
  EXPECT_GE(std::chrono::steady_clock::now() - begin, 50ms);  // At least: no load makes it less.
  proxy.delay(0ms);
  client.say("b");
  EXPECT_EQ(server.hear(), "b");
}

TEST_F(ProxyTest, WithoutAServerAConnectionIsReset) {
  Proxy proxy{1};  // Where nobody listens.
  EXPECT_EQ(call(proxy.port()).hear(), "reset");
}

}  // namespace
}  // namespace tenure::kit
