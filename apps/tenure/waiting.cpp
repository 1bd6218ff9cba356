#include "waiting.hpp"

#include <fmt/core.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <exception>
#include <stop_token>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "base/duration.hpp"
#include "process/descriptor.hpp"
#include "process_state.hpp"
#include "space/stored/grant_wait.hpp"
#include "tenure/claim.hpp"
#include "tenure/detail/saturating.hpp"
#include "tenure/error.hpp"
#include "tenure/space.hpp"
#include "terminal.hpp"

namespace tenure::cli {
namespace {

// A free lock is granted sooner than this, and nothing is printed.
constexpr int patience_ms = 50;
constexpr int message_refresh_ms = 1000;

// "waiting for deploy/prod: held by ann (host, 4711) for 12s; position 2"
class WaitingLine {
 public:
  WaitingLine(const RunOptions& options, const OpenSpace& in, const Owner& owner)
      : options_(options),
        in_(in),
        owner_(owner),
        live_(!options.quiet && can_rewrite(STDERR_FILENO)) {}
  WaitingLine(const WaitingLine&) = delete;
  WaitingLine& operator=(const WaitingLine&) = delete;
  ~WaitingLine() { clear(); }

  // On a terminal repeatedly; otherwise once.
  void update() {
    if (options_.quiet || (said_ && !live_) || !in_foreground()) return;
    const std::optional<std::string> text = describe();
    if (!text) return;
    if (live_) {
      const std::size_t columns = screen_size(STDERR_FILENO).columns;
      fmt::print(stderr, "\r{}\x1b[K", fit(*text, columns - 1));
    } else {
      fmt::print(stderr, "tenure: {}\n", *text);
    }
    (void)std::fflush(stderr);
    said_ = true;
  }

  void clear() {
    if (live_ && said_ && in_foreground()) fmt::print(stderr, "\r\x1b[K");
    said_ = false;
  }

 private:
  // Overwriting a line from the background would garble the output of other programs.
  [[nodiscard]] bool in_foreground() const {
    return !live_ || ::tcgetpgrp(STDERR_FILENO) == ::getpgrp();
  }

  // Nothing while it is not in the queue.
  [[nodiscard]] std::optional<std::string> describe() const {
    try {
      return describe_now();
    } catch (const Error&) {  // The wait itself reports what is wrong with the space.
      return std::nullopt;
    }
  }

  [[nodiscard]] std::optional<std::string> describe_now() const {
    // Not all of the space, every second.
    const std::vector<TicketInfo> tickets = in_.inspect_waits(owner_, options_.paths.front());
    const auto mine = std::ranges::find(tickets, owner_,
                                        [](const TicketInfo& info) { return info.ticket.owner; });
    if (mine == tickets.end()) return std::nullopt;
    if (mine->granted) {
      if (options_.flock.empty()) return std::nullopt;
      return fmt::format("waiting for '{}': another program has locked the file",
                         printable(options_.flock));
    }
    std::string paths;
    for (const Path& path : options_.paths) paths += (paths.empty() ? "" : " ") + path.text();
    const auto blocker = std::ranges::find_if(tickets, [&mine](const TicketInfo& info) {
      return std::ranges::find(mine->blocked_by, info.ticket.number) != mine->blocked_by.end();
    });
    if (blocker == tickets.end()) return fmt::format("waiting for {}", paths);
    return fmt::format("waiting for {}: {}; position {}", paths, describe(*blocker),
                       mine->position);
  }

  [[nodiscard]] std::string describe(const TicketInfo& blocker) const {
    std::string out = fmt::format("{} {}", blocker.granted ? "held by" : "queued behind",
                                  blocker.ticket.owner.text());
    if (!blocker.label.empty()) out += fmt::format(" '{}'", printable(blocker.label));
    if (!blocker.host.empty()) {
      out += fmt::format(" ({}, pid {}{})", printable(blocker.host), blocker.pid,
                         is_stopped(blocker.host, blocker.pid) ? ", stopped" : "");
    }
    if (!blocker.anchor.empty()) {
      out += fmt::format(" as long as '{}' exists", Path::of(blocker.anchor).text());
    }
    if (blocker.since) {
      out += fmt::format("{} for {}", blocker.granted ? "" : ", waiting",
                         base::age_text(detail::saturating_sub(in_.now(), *blocker.since)));
    }
    return out;
  }

  const RunOptions& options_;
  const OpenSpace& in_;
  const Owner& owner_;
  bool live_;
  bool said_ = false;
};

// The request, on a thread of its own.
class Waiter {
 public:
  Waiter(const RunOptions& options, const OpenSpace& in, const Owner& owner)
      : options_(options), locker_(terms(options, in, owner)) {
    if (done_.get() < 0) throw std::system_error(errno, std::generic_category(), "eventfd");
    for (const Path& path : options.paths) claims_.emplace_back(path, options.mode);
    thread_ = std::jthread{[this](const std::stop_token& stop) { ask(stop); }};
  }

  [[nodiscard]] int descriptor() const noexcept { return done_.get(); }
  void stop() { thread_.request_stop(); }
  void result(Acquired& out) {
    thread_.join();
    if (error_ != nullptr) std::rethrow_exception(error_);
    out.hold = std::move(hold_);
    out.file = std::move(file_);
  }

 private:
  static Locker terms(const RunOptions& options, const OpenSpace& in, const Owner& owner) {
    const Locker locker = in.space.as(owner).label(options.label);
    return options.max_hold ? locker.max_hold(*options.max_hold) : locker;
  }

  void ask(const std::stop_token& stop) {
    const auto start = std::chrono::steady_clock::now();
    try {
      if (options_.try_only) {
        hold_ = locker_.try_lock(claims_);
      } else if (options_.timeout) {
        hold_ = locker_.try_lock_for(claims_, *options_.timeout, stop);
      } else {
        hold_ = locker_.lock(claims_, stop);
      }
      if (hold_ && !options_.flock.empty() && !lock_file(start, stop)) hold_.reset();
    } catch (...) {
      error_ = std::current_exception();
    }
    const std::uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = ::write(done_.get(), &one, sizeof one);
  }

  // After the paths, so that commands of tenure meet in their queue, and only the first of them
  // waits for the file. Within the same time.
  bool lock_file(std::chrono::steady_clock::time_point start, const std::stop_token& stop) {
    using std::chrono::nanoseconds;
    FileLock file{options_.flock};
    nanoseconds time = options_.try_only ? nanoseconds::zero() : nanoseconds::max();
    if (options_.timeout) {
      const nanoseconds waited = std::chrono::steady_clock::now() - start;
      time = std::max(nanoseconds::zero(), detail::saturating_sub(*options_.timeout, waited));
    }
    const bool locked = options_.mode.is_exclusive() ? file.try_lock_for(time, stop)
                                                     : file.try_lock_shared_for(time, stop);
    if (locked) file_ = std::move(file);
    return locked;
  }

  const RunOptions& options_;
  Locker locker_;
  std::vector<Claim> claims_;
  process::Descriptor done_{::eventfd(0, EFD_CLOEXEC)};
  std::optional<Hold> hold_;
  std::optional<FileLock> file_;
  std::exception_ptr error_;
  std::jthread thread_;  // Last: it uses all of the above.
};

}  // namespace

Acquired acquire(const RunOptions& options, const OpenSpace& in, const Owner& owner,
                 const process::Signals& signals) {
  Acquired out;
  Waiter waiter{options, in, owner};
  WaitingLine line{options, in, owner};
  for (int wait_ms = patience_ms;; wait_ms = message_refresh_ms) {
    std::array waits{process::readable(waiter.descriptor()),
                     process::readable(signals.descriptor())};
    const int ready = ::poll(waits.data(), waits.size(), wait_ms);
    if (waits[0].revents != 0) break;
    if (ready == 0) line.update();
    const std::optional<process::Arrived> signal = signals.next();
    if (!signal) continue;
    if (process::ends_by_default(signal->number)) {
      out.signal = signal->number;
      waiter.stop();
      break;
    }
    if (signal->number != SIGCONT && signal->number != SIGWINCH && signal->number != SIGURG) {
      line.clear();
      ::raise(SIGSTOP);  // Ctrl-Z, or the terminal belongs to another process group now.
    }
  }
  line.clear();
  waiter.result(out);
  if (out.signal != 0 && out.hold) {
    out.hold->release();  // The signal came too late to end the wait, but it is obeyed.
    out.hold.reset();
    out.file.reset();
  }
  return out;
}

}  // namespace tenure::cli
