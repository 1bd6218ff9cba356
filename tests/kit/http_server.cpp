#include "tests/kit/http_server.hpp"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <system_error>

namespace tenure::kit {
namespace {

[[noreturn]] void fail(const char* what) {
  throw std::system_error(errno, std::generic_category(), what);
}

}  // namespace

std::string http_answer(int status, std::string_view body, std::string_view headers) {
  return "HTTP/1.1 " + std::to_string(status) +
         " Status\r\nContent-Length: " + std::to_string(body.size()) + "\r\n" +
         std::string{headers} + "\r\n" + std::string{body};
}

std::string HttpServer::Connection::path() const {
  const std::size_t begin = head_.find(' ') + 1;
  return head_.substr(begin, head_.find(' ', begin) - begin);
}

bool HttpServer::Connection::answer(std::string_view bytes) {
  while (!bytes.empty() && !ended_) {
    const ssize_t sent = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
  return !ended_;
}

void HttpServer::Connection::reset() {
  const linger at_once{.l_onoff = 1, .l_linger = 0};
  ::setsockopt(socket_, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  ended_ = true;  // serve() closes it.
}

void HttpServer::Connection::close() { ended_ = true; }

bool HttpServer::Connection::read_head() {
  constexpr std::string_view end = "\r\n\r\n";
  for (;;) {
    const std::size_t at = unread_.find(end);
    if (at != std::string::npos) {
      head_ = unread_.substr(0, at);
      unread_.erase(0, at + end.size());
      return true;
    }
    std::array<char, 4096> buffer{};
    const ssize_t size = ::recv(socket_, buffer.data(), buffer.size(), 0);
    if (size <= 0) return false;
    unread_.append(buffer.data(), static_cast<std::size_t>(size));
  }
}

HttpServer::HttpServer(Answer answer)
    : answer_(std::move(answer)), listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  if (listener_ < 0 || ::bind(listener_, any, size) != 0 || ::listen(listener_, 128) != 0 ||
      ::getsockname(listener_, any, &size) != 0) {
    fail("listen");
  }
  port_ = ntohs(address.sin_port);
  acceptor_ = std::thread{[this] { accept_all(); }};
}

HttpServer::~HttpServer() {
  stopping_ = true;
  ::shutdown(listener_, SHUT_RDWR);
  acceptor_.join();
  {
    const std::scoped_lock lock{mutex_};
    for (const Open& one : open_) {
      if (one.socket >= 0) ::shutdown(one.socket, SHUT_RDWR);
    }
  }
  for (Open& one : open_) one.thread.join();  // No connection is added any more.
  ::close(listener_);
}

std::string HttpServer::url(std::string_view path) const {
  return "http://127.0.0.1:" + std::to_string(port_) + std::string{path};
}

void HttpServer::accept_all() {
  while (!stopping_) {
    const int socket = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (socket < 0) continue;
    ++connections_;
    const std::scoped_lock lock{mutex_};
    Open& one = open_.emplace_back();
    one.socket = socket;
    one.thread = std::thread{[this, &one, socket] { serve(one, socket); }};
  }
}

void HttpServer::serve(Open& own, int socket) {
  Connection client{*this, socket};
  while (!client.ended_ && client.read_head()) {
    ++requests_;
    answer_(client);
  }
  const std::scoped_lock lock{mutex_};
  ::close(socket);
  own.socket = -1;
}

}  // namespace tenure::kit
