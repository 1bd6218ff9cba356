#include "tests/kit/server.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <thread>
#include <utility>

#include "tenure/error.hpp"

namespace tenure::kit {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr auto start_limit = 60s;
constexpr auto stop_limit = 5s;

}  // namespace

Server::Server(const std::string& name, int port, const std::filesystem::path& parent)
    : name_(name),
      directory_(parent.empty() ? Scratch{"tenure-" + name + '-'}
                                : Scratch{"tenure-" + name + '-', parent}),
      port_(port) {}

Server::~Server() {
  if (process_) process_->kill_within(stop_limit, stop_signal_);
}

void Server::set_program(Program program, int stop_signal) {
  program_ = std::move(program);
  program_.output = Program::Output::log;
  program_.log = log();
  program_.death_signal = stop_signal;
  stop_signal_ = stop_signal;
}

void Server::start() { process_.emplace(program_); }

void Server::restart() {
  start();
  await_ready();
}

void Server::await_ready() {
  for (const auto until = Clock::now() + start_limit; !ready();) {
    if (!runs()) {
      throw Error(name_ + " ended with status " + std::to_string(process().exit_status()) +
                  " before it was ready:\n" + end_of(log()));
    }
    if (Clock::now() > until) {
      throw Error(name_ + " was not ready within 60 seconds:\n" + end_of(log()));
    }
    std::this_thread::sleep_for(10ms);
  }
}

Process& Server::process() {
  if (!process_) throw Error(name_ + " was not started");
  return *process_;
}

void Server::signal(int number) {
  if (number == SIGSTOP) {
    process().stop();
  } else {
    process().signal(number);
  }
}

void Server::kill(int number) {
  if (process_) process_->kill(number);
}

bool accepts_connections(const std::string& host, int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  ::inet_pton(AF_INET, host.c_str(), &address.sin_addr);
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const bool connected =
      ::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  ::close(fd);
  return connected;
}

}  // namespace tenure::kit
