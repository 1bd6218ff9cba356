#include "bench.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <memory>
#include <new>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include "base/duration.hpp"
#include "bench_load.hpp"
#include "exit_status.hpp"
#include "process/descriptor.hpp"
#include "process/signals.hpp"
#include "scratch.hpp"
#include "tenure/store.hpp"
#include "terminal.hpp"

namespace tenure::cli {
namespace {

// Memory that forked processes share with this one.
class SharedMemory {
 public:
  explicit SharedMemory(const BenchOptions& options) {
    const std::size_t keys = options.keys * sizeof(std::atomic<std::int64_t>);
    size_ = options.clients * sizeof(ClientFigures) + keys + sizeof(std::atomic<std::int64_t>);
    start_ = ::mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (start_ == MAP_FAILED) process::fail_system("mmap");
    auto* const figures = static_cast<ClientFigures*>(start_);  // Zeros are their initial state.
    auto* const stamps = reinterpret_cast<std::atomic<std::int64_t>*>(figures + options.clients);
    memory.clients = {figures, options.clients};
    memory.end = stamps;
    memory.released = {stamps + 1, options.keys};
  }
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;
  ~SharedMemory() { ::munmap(start_, size_); }

  BenchMemory memory;

 private:
  void* start_ = nullptr;
  std::size_t size_ = 0;
};

// The processes of one measurement. The destructor kills those that still run.
class Crowd {
 public:
  Crowd(const BenchOptions& options, const std::string& url, const BenchMemory& memory,
        const process::Signals& signals)
      : signals_(signals) {
    for (std::size_t i = 0; i < options.processes; ++i) {
      const std::size_t first = options.clients * i / options.processes;
      const std::size_t last = options.clients * (i + 1) / options.processes;
      const pid_t parent = ::getpid();
      const pid_t pid = ::fork();
      if (pid < 0) process::fail_system("fork");
      if (pid == 0) {
        ::prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
        if (::getppid() != parent) ::_exit(exit_failure);
        ::pthread_sigmask(SIG_SETMASK, &signals.original(), nullptr);
        go_.write.reset();
        ready_.read.reset();
        ::_exit(
            bench_process(options, url, memory, first, last, ready_.write.get(), go_.read.get()));
      }
      processes_.push_back(pid);
    }
    ready_.write.reset();
  }
  Crowd(const Crowd&) = delete;
  Crowd& operator=(const Crowd&) = delete;
  ~Crowd() {
    for (const pid_t pid : processes_) ::kill(pid, SIGKILL);
    while (!processes_.empty()) reap();
  }

  // 0, or the exit status to end with.
  int wait_until_ready() {
    for (std::size_t ready = 0; ready < processes_.size();) {
      if (const int status = wait_for(ready_.read.get()); status != 0) return status;
      std::array<char, 64> bytes{};
      const ssize_t size = ::read(ready_.read.get(), bytes.data(), bytes.size());
      if (size <= 0) return exit_failure;  // A process has ended, and printed why.
      ready += static_cast<std::size_t>(size);
    }
    return exit_ok;
  }
  void go() { go_.write.reset(); }
  int wait_until_done() {
    // They hold the other end of `ready` until they end.
    if (const int status = wait_for(ready_.read.get()); status != 0) return status;
    int worst = exit_ok;
    while (!processes_.empty()) worst = std::max(worst, reap());
    return worst;
  }

 private:
  int wait_for(int descriptor) {
    std::array waits{process::readable(descriptor), process::readable(signals_.descriptor())};
    for (;;) {
      ::poll(waits.data(), waits.size(), -1);
      if (const std::optional<process::Arrived> signal = signals_.next();
          signal && process::ends_by_default(signal->number)) {
        return exit_signal + signal->number;
      }
      if (waits[0].revents != 0) return exit_ok;
    }
  }

  int reap() {
    int status = 0;
    const pid_t pid = processes_.back();
    while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    processes_.pop_back();
    return WIFEXITED(status) ? WEXITSTATUS(status) : exit_failure;
  }

  const process::Signals& signals_;
  process::Pipe ready_;
  process::Pipe go_;
  std::vector<pid_t> processes_;
};

std::string_view name_of(BenchOptions::Kind mode) {
  constexpr std::array names{"exclusive", "shared", "permits"};
  return names.at(static_cast<std::size_t>(mode));
}

nlohmann::ordered_json json_of(const Histogram& times) {
  return {{"count", times.count()},
          {"p50", times.percentile(0.5).count()},
          {"p99", times.percentile(0.99).count()},
          {"p999", times.percentile(0.999).count()},
          {"max", times.most().count()}};
}

void print(const BenchOptions& options, const std::string& url, const ClientFigures& sum) {
  const double seconds = std::chrono::duration<double>(options.time).count();
  const double rate = static_cast<double>(sum.operations) / seconds;
  if (options.json) {
    nlohmann::ordered_json out;
    out["space"] = url;
    out["mode"] = name_of(options.mode);
    if (options.mode == BenchOptions::Kind::permits) out["permits"] = options.permits;
    out["clients"] = options.clients;
    out["processes"] = options.processes;
    out["keys"] = options.keys;
    out["seconds"] = seconds;
    out["hold_ns"] = options.hold.count();
    out["operations"] = sum.operations;
    out["per_second"] = rate;
    out["lock_ns"] = json_of(sum.lock);
    out["hand_off_ns"] = json_of(sum.hand_off);
    fmt::print("{}\n", out.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
    return;
  }
  fmt::print("{}: mode {}, clients {}, processes {}, keys {}, {} s\n", printable(url),
             name_of(options.mode), options.clients, options.processes, options.keys, seconds);
  fmt::print("  {:<9} {:>10}  {:>10.0f} per second\n", "locks", sum.operations, rate);
  fmt::print("  {:<9} {:>10} {:>10} {:>10} {:>10}\n", "", "p50", "p99", "p99.9", "max");
  const auto row = [](std::string_view name, const Histogram& times) {
    if (times.count() == 0) return;
    fmt::print("  {:<9} {:>10} {:>10} {:>10} {:>10}\n", name,
               base::precise_text(times.percentile(0.5)),
               base::precise_text(times.percentile(0.99)),
               base::precise_text(times.percentile(0.999)), base::precise_text(times.most()));
  };
  row("lock", sum.lock);
  row("hand-off", sum.hand_off);
}

}  // namespace

int bench(const BenchOptions& options) {
  std::optional<Scratch> scratch;
  std::string url = options.space;
  if (url.empty()) url = "sqlite:" + scratch.emplace().path() + "/bench.db";
  const process::Signals signals = process::Signals::block();
  const SharedMemory shared{options};
  {
    Crowd crowd{options, url, shared.memory, signals};
    if (const int status = crowd.wait_until_ready(); status != 0) return status;
    const auto now = std::chrono::steady_clock::now().time_since_epoch();
    shared.memory.end->store(std::chrono::nanoseconds{now + options.time}.count());
    crowd.go();
    if (const int status = crowd.wait_until_done(); status != 0) return status;
  }
  const auto sum = std::make_unique<ClientFigures>();
  for (const ClientFigures& one : shared.memory.clients) {
    sum->operations += one.operations;
    sum->lock.merge(one.lock);
    sum->hand_off.merge(one.hand_off);
  }
  print(options, shown_url(url), *sum);
  return exit_ok;
}

}  // namespace tenure::cli
