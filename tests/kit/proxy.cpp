#include "tests/kit/proxy.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <deque>
#include <future>
#include <string>
#include <system_error>
#include <tuple>
#include <utility>

namespace tenure::kit {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t most_kept = 1U << 20U;  // Bytes of one direction; then its sender waits.

sockaddr_in loopback(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  return address;
}

[[noreturn]] void fail_proxy(const char* what) {
  throw std::system_error(errno, std::generic_category(), what);
}

void no_delay(int socket) {
  const int on = 1;
  ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

// The other end gets a reset, not an end.
void reset(int& socket) {
  if (socket < 0) return;
  const linger now{.l_onoff = 1, .l_linger = 0};
  ::setsockopt(socket, SOL_SOCKET, SO_LINGER, &now, sizeof now);
  ::close(std::exchange(socket, -1));
}

// One direction: what was read and is not written yet.
struct Pipe {
  struct Chunk {
    Clock::time_point due;
    std::string bytes;
  };
  std::deque<Chunk> chunks{};
  std::size_t kept = 0;
  std::size_t heard = 0;  // Bytes ever.
  bool swallows = false;
  bool ended = false;   // Its sender has,
  bool closed = false;  // and its receiver knows, or will never.

  [[nodiscard]] bool due(Clock::time_point now) const {
    return !chunks.empty() && chunks.front().due <= now;
  }
};

// False: the connection is broken.
bool read_into(int socket, Pipe& pipe, Clock::time_point due) {
  std::array<char, 16'384> buffer{};
  const ssize_t size = ::recv(socket, buffer.data(), buffer.size(), MSG_DONTWAIT);
  if (size < 0) return errno == EAGAIN || errno == EINTR;
  pipe.heard += static_cast<std::size_t>(size);
  if (size == 0) {
    pipe.ended = true;
  } else if (!pipe.swallows) {
    pipe.chunks.push_back({due, {buffer.data(), static_cast<std::size_t>(size)}});
    pipe.kept += static_cast<std::size_t>(size);
  }
  return true;
}

bool write_from(int socket, Pipe& pipe, Clock::time_point now) {
  while (pipe.due(now)) {
    std::string& bytes = pipe.chunks.front().bytes;
    const ssize_t size = ::send(socket, bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (size < 0) return errno == EAGAIN || errno == EINTR;
    pipe.kept -= static_cast<std::size_t>(size);
    bytes.erase(0, static_cast<std::size_t>(size));
    if (bytes.empty()) pipe.chunks.pop_front();
  }
  if (pipe.ended && pipe.chunks.empty() && !pipe.closed) {
    pipe.closed = true;
    if (!pipe.swallows) ::shutdown(socket, SHUT_WR);
  }
  return true;
}

}  // namespace

struct Proxy::Link {
  int client = -1;
  int server = -1;
  Pipe up{};
  Pipe down{};
  bool asking = false;  // It waits for an answer.
  bool loses = false;   // What it waits for is not to come.

  void cut() {
    reset(client);
    reset(server);
  }
  [[nodiscard]] bool over() const { return client < 0 || (up.closed && down.closed); }
  [[nodiscard]] pollfd wish(int socket, const Pipe& in, const Pipe& out) const {
    short events = 0;
    if (!in.ended && in.kept < most_kept) events |= POLLIN;
    if (out.due(Clock::now())) events |= POLLOUT;
    return {.fd = events == 0 ? -1 : socket, .events = events, .revents = 0};
  }
  [[nodiscard]] bool read(Clock::duration delay, bool from_client, bool from_server) {
    const Clock::time_point due = Clock::now() + delay;
    return (!from_client || read_into(client, up, due) || swallow_end(up)) &&
           (!from_server || read_into(server, down, due) || swallow_end(down));
  }
  // A pipe that swallows does not tell the receiver that the sender has reset the connection.
  static bool swallow_end(Pipe& pipe) {
    if (pipe.swallows) pipe.ended = true;
    return pipe.swallows;
  }
  void write(bool whole) {
    const Clock::time_point now = Clock::now();
    if (!whole || !write_from(server, up, now) || !write_from(client, down, now)) cut();
  }
};

Proxy::Proxy(int server_port) : server_port_(server_port) {
  listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  bell_ = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  sockaddr_in address = loopback(0);
  socklen_t size = sizeof address;
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  if (::bind(listener_, any, size) != 0 || ::listen(listener_, 128) != 0 ||
      ::getsockname(listener_, any, &size) != 0) {
    fail_proxy("a proxy's port");
  }
  port_ = ntohs(address.sin_port);
  thread_ = std::thread{[this] { serve(); }};
}

Proxy::~Proxy() {
  tell([this] { stopping_ = true; });
  thread_.join();
  for (Link& link : links_) link.cut();
  ::close(listener_);
  ::close(bell_);
}

void Proxy::tell(std::function<void()> command) {
  std::promise<void> done;
  {
    const std::scoped_lock lock{mutex_};
    commands_.emplace_back([&] {
      command();
      done.set_value();
    });
  }
  const std::uint64_t one = 1;
  std::ignore = ::write(bell_, &one, sizeof one);
  done.get_future().wait();
}

void Proxy::obey() {
  std::uint64_t rung = 0;
  std::ignore = ::read(bell_, &rung, sizeof rung);
  std::vector<std::function<void()>> commands;
  {
    const std::scoped_lock lock{mutex_};
    commands = std::exchange(commands_, {});
  }
  for (const auto& command : commands) command();
}

void Proxy::accept() {
  int client = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
  if (client < 0) return;
  ++accepted_;
  if (door_ == Door::shut) return reset(client);
  int server = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const sockaddr_in address = loopback(server_port_);
  if (::connect(server, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    reset(server);
    return reset(client);
  }
  no_delay(client);
  no_delay(server);
  Link& link = links_.emplace_back();
  link.client = client;
  link.server = server;
  link.up.swallows = link.down.swallows = door_ == Door::silent;
}

// Until when nothing is due, in milliseconds; negative: for ever.
int Proxy::wait() {
  const Clock::time_point now = Clock::now();
  int first = -1;
  for (const Link& link : links_) {
    for (const Pipe* pipe : {&link.up, &link.down}) {
      if (pipe->chunks.empty() || pipe->due(now)) continue;
      const auto left =
          std::chrono::ceil<std::chrono::milliseconds>(pipe->chunks.front().due - now);
      const int time = static_cast<int>(left.count());
      first = first < 0 ? time : std::min(first, time);
    }
  }
  return first;
}

void Proxy::count_turn(Link& link, bool asked, bool answered) {
  if (asked && !std::exchange(link.asking, true) && turns_left_ > 0)
    link.loses = --turns_left_ < in_a_row_;
  if (link.loses && (lost_way_ == Way::to_server || answered)) {
    link.cut();
    return;
  }
  if (answered) link.asking = false;
}

void Proxy::serve() {
  while (!stopping_) {
    std::vector<pollfd> all{{.fd = bell_, .events = POLLIN, .revents = 0},
                            {.fd = listener_, .events = POLLIN, .revents = 0}};
    for (const Link& link : links_) {
      all.push_back(link.wish(link.client, link.up, link.down));
      all.push_back(link.wish(link.server, link.down, link.up));
    }
    ::poll(all.data(), all.size(), wait());
    std::size_t at = 2;
    constexpr short readable = POLLIN | POLLHUP | POLLERR;
    for (Link& link : links_) {
      const std::size_t asked = link.up.heard;
      const std::size_t answered = link.down.heard;
      const bool whole = link.read(delay_, (all[at].revents & readable) != 0,
                                   (all[at + 1].revents & readable) != 0);
      at += 2;
      count_turn(link, link.up.heard != asked, link.down.heard != answered);
      if (link.client >= 0) link.write(whole);
      if (link.over()) link.cut();
    }
    std::erase_if(links_, [](const Link& link) { return link.client < 0; });
    if (all[1].revents != 0) accept();
    if (all[0].revents != 0) obey();
  }
}

// --- commands

void Proxy::cut() {
  tell([this] {
    for (Link& link : links_) link.cut();
    links_.clear();
  });
}

void Proxy::swallow(Way way) {
  tell([this, way] {
    for (Link& link : links_) {
      Pipe& pipe = way == Way::to_server ? link.up : link.down;
      pipe.swallows = true;
      pipe.chunks.clear();
      pipe.kept = 0;
    }
  });
}

void Proxy::door(Door door) {
  tell([this, door] { door_ = door; });
}

void Proxy::delay(std::chrono::milliseconds time) {
  tell([this, time] { delay_ = time; });
}

void Proxy::lose(std::size_t turn, Way way, std::size_t in_a_row) {
  tell([this, turn, way, in_a_row] {
    for (Link& link : links_) link.asking = link.loses = false;
    turns_left_ = turn + in_a_row - 1;
    in_a_row_ = in_a_row;
    lost_way_ = way;
  });
}

bool Proxy::has_lost() {
  bool lost = false;
  tell([&] { lost = std::exchange(turns_left_, 0) == 0; });
  return lost;
}

std::size_t Proxy::connections() {
  std::size_t count = 0;
  tell([&] { count = links_.size(); });
  return count;
}

std::size_t Proxy::accepted() {
  std::size_t count = 0;
  tell([&] { count = accepted_; });
  return count;
}

}  // namespace tenure::kit
