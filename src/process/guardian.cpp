#include "process/guardian.hpp"

#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "process/guardian_main.hpp"
#include "process/messages.hpp"
#include "tenure/error.hpp"

namespace tenure::process {
namespace {

struct SocketPair {
  Descriptor ours;
  Descriptor theirs;
  SocketPair() {
    std::array<int, 2> pair{};
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair.data()) != 0) {
      fail_system("socketpair");
    }
    ours = Descriptor{pair[0]};
    theirs = Descriptor{pair[1]};
  }
};

// A dead guardian takes no order; next() reports its death.
void send(int socket, Order order, std::string_view text = {},
          std::span<const int> descriptors = {}) {
  order.text_size = text.size();
  const std::string_view first = text.substr(0, max_packet_text);
  std::array<iovec, 2> parts{
      {{.iov_base = &order, .iov_len = sizeof order},
       {.iov_base = const_cast<char*>(first.data()), .iov_len = first.size()}}};  // NOLINT
  msghdr message{};
  message.msg_iov = parts.data();
  message.msg_iovlen = parts.size();
  alignas(cmsghdr) std::array<char, CMSG_SPACE(max_packet_descriptors * sizeof(int))> control{};
  if (!descriptors.empty()) {
    message.msg_control = control.data();
    message.msg_controllen = CMSG_SPACE(descriptors.size_bytes());
    cmsghdr* const header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(descriptors.size_bytes());
    std::memcpy(CMSG_DATA(header), descriptors.data(), descriptors.size_bytes());
  }
  while (::sendmsg(socket, &message, MSG_NOSIGNAL) < 0) {
    if (errno == EBADF) fail_system("sendmsg: a descriptor of the command");
    if (errno != EINTR) return;
  }
  for (text.remove_prefix(first.size()); !text.empty();) {
    const std::string_view part = text.substr(0, max_packet_text);
    const ssize_t sent = ::send(socket, part.data(), part.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno != EINTR) return;
    if (sent >= 0) text.remove_prefix(part.size());
  }
}

void append(std::string& out, const std::string& text) {
  if (text.contains('\0')) {
    throw BadRequest("a word, variable or path of a command contains a NUL byte: remove it");
  }
  out.append(text).push_back('\0');
}

}  // namespace

Guardian Guardian::start(const GuardianOptions& options) {
  SocketPair pair;
  GuardianOptions complete = options;
  if (!complete.signal_mask) {
    sigset_t mask{};
    ::pthread_sigmask(SIG_SETMASK, nullptr, &mask);
    complete.signal_mask = mask;
  }
  // The guardian begins with all signals blocked: a handler of the owner must not run in it.
  sigset_t all{};
  sigset_t before{};
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  const pid_t pid = ::fork();
  if (pid == 0) {
    pair.ours.reset();
    ::_exit(guardian_main(complete, std::move(pair.theirs)));
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (pid < 0) fail_system("fork");
  return {pid, std::move(pair.ours)};
}

Guardian::Guardian(Guardian&& other) noexcept
    : pid_(std::exchange(other.pid_, 0)), socket_(std::move(other.socket_)) {}

Guardian& Guardian::operator=(Guardian&& other) noexcept {
  if (this != &other) {
    close();
    pid_ = std::exchange(other.pid_, 0);
    socket_ = std::move(other.socket_);
  }
  return *this;
}

Guardian::~Guardian() { close(); }

void Guardian::close() noexcept {
  if (socket_.get() < 0) return;
  // Not only closed: a process that the owner forked may have a copy.
  ::shutdown(socket_.get(), SHUT_RDWR);
  socket_.reset();
  reap();
}

void Guardian::reap() noexcept {
  if (pid_ == 0) return;
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
  pid_ = 0;
}

std::optional<Event> Guardian::next() {
  Event event;
  const ssize_t size = ::recv(socket_.get(), &event, sizeof event, MSG_DONTWAIT);
  if (size == static_cast<ssize_t>(sizeof event)) return event;
  if (size < 0 && (errno == EAGAIN || errno == EINTR)) return std::nullopt;
  reap();  // Its children are the owner's from here on.
  return Event{.kind = Event::Kind::guardian_dead};
}

void Guardian::launch(const Command& command) {
  if (command.words.empty()) throw BadRequest("a command has no words: name a program");
  if (command.descriptors.size() > Command::max_descriptors) {
    throw BadRequest("a command has more than " + std::to_string(Command::max_descriptors) +
                     " descriptors: pass fewer");
  }
  Order order{.kind = Order::Kind::launch,
              .group = command.group,
              .words = static_cast<std::uint32_t>(command.words.size()),
              .variables = static_cast<std::uint32_t>(command.environment.size()),
              .kill_at = command.kill_at ? std::max<std::int64_t>(command.kill_at->count(), 1) : 0};
  std::string text;
  std::vector<int> descriptors;
  append(text, command.directory);
  const std::array<const Target*, 3> targets{&command.input, &command.output, &command.error};
  for (std::size_t i = 0; i < targets.size(); ++i) {
    order.targets[i] = targets[i]->kind;
    append(text, targets[i]->path);
    if (targets[i]->kind == Target::Kind::descriptor) {
      descriptors.push_back(targets[i]->descriptor);
    }
  }
  for (const std::string& word : command.words) append(text, word);
  for (const std::string& variable : command.environment) append(text, variable);
  descriptors.insert(descriptors.end(), command.descriptors.begin(), command.descriptors.end());
  send(socket_.get(), order, text, descriptors);
}

void Guardian::signal(int number, std::int32_t stop) {
  send(socket_.get(), {.kind = Order::Kind::signal, .signal = number, .stop = stop});
}

void Guardian::stop() { send(socket_.get(), {.kind = Order::Kind::stop}); }

void Guardian::resume() { send(socket_.get(), {.kind = Order::Kind::resume}); }

void Guardian::end(base::BootTime kill_at) {
  send(socket_.get(),
       {.kind = Order::Kind::end, .kill_at = std::max<std::int64_t>(kill_at.count(), 1)});
}

void Guardian::leave() { send(socket_.get(), {.kind = Order::Kind::leave}); }

Guardian Guardian::successor() {
  SocketPair pair;
  const int theirs = pair.theirs.get();
  send(socket_.get(), {.kind = Order::Kind::succeed}, {}, {&theirs, 1});
  pair.theirs.reset();
  Event event;  // A successor reports itself as started.
  ssize_t size = 0;
  do {
    size = ::recv(pair.ours.get(), &event, sizeof event, 0);
  } while (size < 0 && errno == EINTR);
  if (size != static_cast<ssize_t>(sizeof event)) {
    throw std::system_error(EAGAIN, std::generic_category(),
                            "the guardian could not fork its successor");
  }
  return {event.value, std::move(pair.ours)};
}

}  // namespace tenure::process
