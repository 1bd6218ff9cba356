#include "git.hpp"

#include <fmt/core.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cli.hpp"
#include "exit_status.hpp"
#include "git/library.hpp"
#include "git/program.hpp"
#include "git/repository.hpp"
#include "git/runner.hpp"
#include "owner.hpp"
#include "process/descriptor.hpp"
#include "process/process_tree.hpp"
#include "space_choice.hpp"
#include "supervisor.hpp"
#include "tenure/error.hpp"
#include "tenure/git.hpp"
#include "terminal.hpp"
#include "waiting.hpp"
#include "wrapped.hpp"

namespace tenure::cli {
namespace {

// The command did not exit with 0, so nothing of it is kept.
struct CommandFailed {
  int status;
};

// While one exists, a signal that would end this process requests a stop instead.
class SignalStop {
 public:
  SignalStop(const process::Signals& signals, std::stop_source& source, std::atomic<int>& number)
      : end_(::eventfd(0, EFD_CLOEXEC)) {
    if (end_.get() < 0) process::fail_system("eventfd");
    thread_ = std::thread{[this, &signals, &source, &number] { watch(signals, source, number); }};
  }
  SignalStop(const SignalStop&) = delete;
  SignalStop& operator=(const SignalStop&) = delete;
  ~SignalStop() {
    const std::uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = ::write(end_.get(), &one, sizeof one);
    thread_.join();
  }

 private:
  void watch(const process::Signals& signals, std::stop_source& source,
             std::atomic<int>& number) const {
    for (;;) {
      std::array waits{process::readable(end_.get()), process::readable(signals.descriptor())};
      ::poll(waits.data(), waits.size(), -1);
      if (waits[0].revents != 0) return;
      const std::optional<process::Arrived> signal = signals.next();
      if (!signal) continue;
      if (process::ends_by_default(signal->number)) {
        number = signal->number;
        source.request_stop();
      } else if (signal->number == SIGTSTP) {
        ::raise(SIGSTOP);
      }
    }
  }

  process::Descriptor end_;
  std::thread thread_;
};

struct Target {
  git::Destination destination;
  git::Options options;
};

Target target_of(const GitOptions& options) {
  Target out{
      .destination = {.remote = options.remote, .branch = options.branch, .working_copy = {}},
      .options = {}};
  if (options.remote.empty() || options.branch.empty()) {
    const git::Upstream here = git::find_upstream(std::filesystem::current_path(), options.branch);
    if (options.remote.empty()) {
      out.destination.remote = here.remote;
      out.options.push_remote = here.push_remote;
      out.options.local_repository = here.repository;
    }
    if (options.branch.empty()) out.destination.branch = here.branch;
  }
  const std::string& command = options.command.front();
  // Arguments may be secret, and the message is pushed.
  out.options.message =
      options.message.empty() ? "Run " + command.substr(command.rfind('/') + 1) : options.message;
  out.options.max_attempts = options.attempts;
  out.options.accept_rewritten_history = options.accept_rewrite;
  return out;
}

// Everything that exists before there are threads.
struct Ground {
  process::Signals signals = process::Signals::block();
  process::Guardian commands;  // Runs none itself: each command has a successor of its own.
  process::Guardian programs;

  Ground() : commands(start(true)), programs(start(false)) {}

 private:
  [[nodiscard]] process::Guardian start(bool foreground) const {
    process::adopt_orphans();
    constexpr base::BootTime none{0};
    return process::Guardian::start({.signal_mask = signals.original(),
                                     .foreground = foreground,
                                     .restore_terminal = foreground,
                                     .grace = foreground ? none : git::git_guardian.grace,
                                     .linger = foreground ? none : git::git_guardian.linger});
  }
};

class GitRun {
 public:
  GitRun(const GitOptions& options, Target target, const OpenSpace& in, Ground& ground)
      : options_(options),
        in_(in),
        ground_(ground),
        destination_(target.destination),
        path_(git::lock_path_of(target.destination)),
        runner_(std::move(target.destination), std::move(target.options),
                std::move(ground.programs), in.space.descriptor()) {}

  int run(const Owner& owner) {
    RunOptions wait;
    wait.paths = {path_};
    wait.label = options_.command.front().substr(options_.command.front().rfind('/') + 1);
    wait.quiet = options_.quiet;
    Acquired acquired = acquire(wait, in_, owner, ground_.signals);
    if (!acquired.hold) return exit_signal + acquired.signal;
    hold_ = *std::move(acquired.hold);
    owner_ = owner.text();
    try {
      watcher_.emplace(ground_.signals, stop_, signal_);
      return transact();
    } catch (const CommandFailed& failed) {
      return failed.status;
    } catch (const git::GitError& error) {
      if (error.problem() == git::Problem::stopped && signal_ != 0) return exit_signal + signal_;
      fmt::print(stderr, "tenure: {}\n", printable(error.what()));
      switch (error.problem()) {
        case git::Problem::branch_moved: return exit_not_in_time;
        case git::Problem::lock_lost: return exit_lost;
        default: return exit_failure;
      }
    }
  }

 private:
  int transact() {
    const git::Transform transform = [this](git::Transaction& change) { run_command(change); };
    if (options_.dry_run) {
      const std::string patch = runner_.preview(hold_, transform, stop_.get_token());
      watcher_.reset();
      (void)std::fwrite(patch.data(), 1, patch.size(), stdout);
      return exit_ok;
    }
    const git::Outcome outcome = runner_.transaction(hold_, transform, stop_.get_token());
    watcher_.reset();
    if (options_.quiet) return exit_ok;
    if (outcome.commit.empty()) {
      fmt::print(stderr, "tenure: no changes: pushed nothing\n");
    } else {
      fmt::print(stderr, "tenure: pushed {} to branch '{}'\n", outcome.commit.substr(0, 12),
                 printable(destination_.branch));
    }
    return exit_ok;
  }

  void run_command(const git::Transaction& change) {
    watcher_.reset();  // From here on signals are the command's.
    {
      process::Guardian guardian = ground_.commands.successor();
      process::Command command{.words = options_.command};
      command.directory = change.directory();
      command.environment = git::without_repository_variables();
      command.environment.insert(command.environment.end(),
                                 {"TENURE_PATH=" + path_.text(), "TENURE_OWNER=" + owner_,
                                  "TENURE_TOKEN=" + std::to_string(change.token().value)});
      command.group = ::isatty(STDIN_FILENO) == 1 ? process::Group::owner : process::Group::own;
      command.descriptors = runner_.shared_descriptors();
      constexpr int on_ask = 0;  // A transaction is short: whoever asks for the lock gets it soon.
      Supervisor supervisor{guardian, ground_.signals, *in_.store, hold_, on_ask};
      const int status = supervisor.run(std::move(command));
      if (status != 0 || supervisor.lost()) throw CommandFailed{status};
      // What the command left behind ends with its guardian, before its files are looked at.
    }
    watcher_.emplace(ground_.signals, stop_, signal_);
  }

  const GitOptions& options_;
  const OpenSpace& in_;
  Ground& ground_;
  git::Destination destination_;
  Path path_;
  git::TransactionRunner runner_;
  Hold hold_;
  std::string owner_;
  std::stop_source stop_;
  std::atomic<int> signal_ = 0;
  std::optional<SignalStop> watcher_;
};

}  // namespace

int git(const GitOptions& options) {
  return run_wrapped("git", options.command, [&options] {
    git::start_library();
    Target target = target_of(options);
    const SpaceChoice choice = choose_space(options.space);
    const Owner owner = new_owner("git");
    Ground ground;
    const Path path = git::lock_path_of(target.destination);
    const OpenSpace in =
        ground.signals.interruptible([&] { return open_space(choice, "tenure git", &path); });
    return GitRun{options, std::move(target), in, ground}.run(owner);
  });
}

}  // namespace tenure::cli
