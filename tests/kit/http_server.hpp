// http_server.hpp: an HTTP server on the loopback that does what a test tells it, right or wrong.
//
//   HttpServer server{[](HttpServer::Connection& client) {
//     client.answer("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
//   }};
//   client.get({.url = server.url("/x")});
//
// The function is called once for each request that has arrived, in the thread of its connection.
// It may write anything, wait for the test, reset the connection, or do nothing at all: the
// connection stays open, and the next request on it comes to the function again.
//
// Thread safety: all of it. The destructor cuts all connections and waits for the functions, which
// see closed() then.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <list>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

namespace tenure::kit {

class HttpServer {
 public:
  class Connection {
   public:
    [[nodiscard]] const std::string& head() const noexcept { return head_; }  // As it arrived.
    [[nodiscard]] std::string path() const;
    bool answer(std::string_view bytes);  // False: the other end is gone.
    void reset();                         // RST, and the end of the connection.
    void close();                         // FIN.
    [[nodiscard]] bool closed() const noexcept { return server_.stopping_; }

   private:
    friend HttpServer;
    Connection(HttpServer& server, int socket) : server_(server), socket_(socket) {}
    bool read_head();

    HttpServer& server_;
    int socket_;
    std::string head_;
    std::string unread_;
    bool ended_ = false;
  };
  using Answer = std::function<void(Connection& client)>;

  explicit HttpServer(Answer answer);
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;
  ~HttpServer();

  [[nodiscard]] int port() const noexcept { return port_; }
  [[nodiscard]] std::string url(std::string_view path) const;
  [[nodiscard]] std::size_t connections() const noexcept { return connections_; }  // Ever made.
  [[nodiscard]] std::size_t requests() const noexcept { return requests_; }

 private:
  struct Open {
    int socket = -1;  // Guarded by the mutex; -1: closed.
    std::thread thread;
  };
  void accept_all();
  void serve(Open& own, int socket);

  const Answer answer_;
  int listener_ = -1;
  int port_ = 0;
  std::atomic<bool> stopping_ = false;
  std::atomic<std::size_t> connections_ = 0;
  std::atomic<std::size_t> requests_ = 0;
  std::mutex mutex_;
  std::list<Open> open_;
  std::thread acceptor_;
};

// A whole answer with that status and body.
[[nodiscard]] std::string http_answer(int status, std::string_view body,
                                      std::string_view headers = {});

}  // namespace tenure::kit
