#include "minder.hpp"

#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <system_error>
#include <utility>

#include "minder_orders.hpp"

namespace tenure::cli {
namespace {

// A minder that is dead takes no order; that is seen when its reports are read.
void send(int socket, MinderOrder order, int descriptor = -1) {
  iovec part{.iov_base = &order, .iov_len = sizeof order};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  if (descriptor >= 0) {
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    cmsghdr* const header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(header), &descriptor, sizeof descriptor);
  }
  while (::sendmsg(socket, &message, MSG_NOSIGNAL) < 0 && errno == EINTR) {
  }
}

}  // namespace

BootTime boot_time() {
  timespec now{};
  ::clock_gettime(CLOCK_BOOTTIME, &now);
  return std::chrono::seconds{now.tv_sec} + std::chrono::nanoseconds{now.tv_nsec};
}

Minder Minder::start(const MinderPlan& plan) {
  std::array<int, 2> pair{};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair.data()) != 0)
    fail_system("socketpair");
  Descriptor ours{pair[0]};
  Descriptor theirs{pair[1]};
  const pid_t pid = ::fork();
  if (pid < 0) fail_system("fork");
  if (pid == 0) {
    ours.reset();
    ::_exit(mind(plan, std::move(theirs)));
  }
  return {pid, std::move(ours)};
}

Minder::~Minder() {
  if (socket_.get() < 0) return;
  socket_.reset();
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

std::optional<MinderReport> Minder::next() {
  MinderReport report;
  const ssize_t size = ::recv(socket_.get(), &report, sizeof report, MSG_DONTWAIT);
  if (size == static_cast<ssize_t>(sizeof report)) return report;
  if (size < 0 && (errno == EAGAIN || errno == EINTR)) return std::nullopt;
  return MinderReport{.kind = MinderReport::Kind::minder_dead, .value = 0};
}

void Minder::launch(Token token, int session, std::optional<BootTime> kill_at) {
  send(socket_.get(),
       {.kind = MinderOrder::Kind::launch,
        .signal = 0,
        .stop = 0,
        .token = token.value,
        .kill_at = kill_at ? kill_at->count() : 0},
       session);
}

void Minder::signal(int number, std::int32_t stop) {
  send(socket_.get(), {.kind = MinderOrder::Kind::signal,
                       .signal = number,
                       .stop = stop,
                       .token = 0,
                       .kill_at = 0});
}

void Minder::end(BootTime kill_at) {
  send(socket_.get(), {.kind = MinderOrder::Kind::end,
                       .signal = 0,
                       .stop = 0,
                       .token = 0,
                       .kill_at = kill_at.count() > 0 ? kill_at.count() : 1});
}

void Minder::leave() {
  send(socket_.get(),
       {.kind = MinderOrder::Kind::leave, .signal = 0, .stop = 0, .token = 0, .kill_at = 0});
}

}  // namespace tenure::cli
