// proxy.hpp: a network between clients and a server that does what a test tells it.
//
//   Proxy network{server_port};
//   connect_to(network.port());
//   network.swallow(Proxy::Way::to_client);   // Answers get lost; nobody is told.
//   network.cut();                            // Both ends are.
//
// It forwards bytes to a TCP server on the loopback and knows nothing of what they mean. A
// direction that swallows takes bytes and acknowledges them, as a middlebox does that has forgotten
// the connection: no keepalive of the kernel's notices it, and the end of a connection is not
// passed on.
//
// Thread safety: all of it. When a command returns, it has been done. All sockets are the business
// of one thread, which runs until the object goes; processes that are forked while it is there
// inherit them, so whoever forks does that before.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <mutex>
#include <thread>
#include <vector>

namespace tenure::kit {

class Proxy {
 public:
  enum class Way : std::uint8_t { to_server, to_client };

  explicit Proxy(int server_port);
  Proxy(const Proxy&) = delete;
  Proxy& operator=(const Proxy&) = delete;
  ~Proxy();

  [[nodiscard]] int port() const noexcept { return port_; }

  void cut();             // Every connection there is, with a reset to both ends.
  void swallow(Way way);  // Of every connection there is; later ones work.
  // New connections too: refused at once, or taken and left without a word.
  enum class Door : std::uint8_t { open, shut, silent };
  void door(Door door);
  void delay(std::chrono::milliseconds time);  // Whatever comes from now on, both ways.
  // Cuts one connection instead of passing on a question (to_server) or its answer (to_client):
  // that of the n-th turn from now, counted from one. A client's turn comes when it is first heard
  // of, and after each answer. With `in_a_row`, the turns after it are lost too.
  void lose(std::size_t turn, Way way, std::size_t in_a_row = 1);
  [[nodiscard]] bool has_lost();  // True after all that; false also takes the command back.

  [[nodiscard]] std::size_t connections();  // That are there now,
  [[nodiscard]] std::size_t accepted();     // and that ever were.

 private:
  struct Link;
  void serve();
  void obey();
  void tell(std::function<void()> command);
  void accept();
  int wait();
  void count_turn(Link& link, bool asked, bool answered);

  int port_ = 0;
  int listener_ = -1;
  int bell_ = -1;
  const int server_port_;
  std::mutex mutex_;
  std::vector<std::function<void()>> commands_;  // Guarded by mutex_.
  // The thread's own.
  std::list<Link> links_;
  std::chrono::milliseconds delay_{0};
  Door door_ = Door::open;
  std::size_t turns_left_ = 0;  // Zero: nothing is to be lost.
  std::size_t in_a_row_ = 1;    // So many of the last of them are.
  Way lost_way_ = Way::to_server;
  std::size_t accepted_ = 0;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace tenure::kit
