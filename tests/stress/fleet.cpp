#include "tests/stress/fleet.hpp"

#include <signal.h>  // NOLINT: kill is POSIX's.
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <utility>

#include "tenure/error.hpp"

namespace tenure::stress {

Fleet::Fleet(std::string program, std::string directory, std::size_t workers)
    : program_(std::move(program)),
      directory_(std::move(directory)),
      log_(directory_ + "/driver.log"),
      workers_(workers) {}

Fleet::~Fleet() {
  for (std::size_t slot = 0; slot < workers_.size(); ++slot) kill(slot);
}

void Fleet::note(std::string_view what, const Worker& worker) {
  log_.write(std::to_string(boot_ns()) + ' ' + std::string{what} + ' ' + worker.name + '\n');
}

void Fleet::start(std::size_t slot, unsigned threads, std::uint64_t seed) {
  Worker& worker = workers_[slot];
  const std::string number = std::to_string(++started_);
  worker = {};
  worker.name = "worker-" + std::string(5 - number.size(), '0') + number;
  std::array<std::string, 6> words = {program_,
                                      directory_,
                                      worker.name,
                                      std::to_string(slot),
                                      std::to_string(threads),
                                      std::to_string(seed)};
  std::array<char*, words.size() + 1> arguments{};
  for (std::size_t i = 0; i < words.size(); ++i) arguments[i] = words[i].data();
  const pid_t driver = ::getpid();
  note("start", worker);
  // The worker waits for this signal; told to end before it can, it must not die of it.
  sigset_t signals;
  sigset_t before;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  ::sigprocmask(SIG_BLOCK, &signals, &before);
  worker.pid = ::fork();
  if (worker.pid != 0) ::sigprocmask(SIG_SETMASK, &before, nullptr);
  if (worker.pid < 0) throw Error("can't fork: " + std::string{std::strerror(errno)});
  if (worker.pid != 0) return;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() == driver) ::execv(program_.c_str(), arguments.data());
  ::_exit(127);
}

void Fleet::kill(std::size_t slot) {
  Worker& worker = workers_[slot];
  if (worker.pid == 0) return;
  note("kill", worker);
  ::kill(worker.pid, SIGKILL);
  ::waitpid(worker.pid, nullptr, 0);
  worker = {};
}

void Fleet::stop(std::size_t slot) {
  Worker& worker = workers_[slot];
  note("stop", worker);
  ::kill(worker.pid, SIGSTOP);
  worker.stopped = true;
}

void Fleet::go_on(std::size_t slot) {
  Worker& worker = workers_[slot];
  if (!std::exchange(worker.stopped, false)) return;
  ::kill(worker.pid, SIGCONT);
  note("continue", worker);
}

void Fleet::tell_to_end(std::size_t slot) {
  Worker& worker = workers_[slot];
  if (worker.pid == 0) return;
  worker.told = true;
  ::kill(worker.pid, SIGTERM);
}

std::string Fleet::reap() {
  for (Worker& worker : workers_) {
    int status = 0;
    if (worker.pid == 0 || ::waitpid(worker.pid, &status, WNOHANG) != worker.pid) continue;
    const Worker gone = std::exchange(worker, {});
    if (gone.told && WIFEXITED(status) && WEXITSTATUS(status) == 0) {
      note("end", gone);
    } else if (WIFSIGNALED(status)) {
      return gone.name + " died of signal " + std::to_string(WTERMSIG(status));
    } else {
      return gone.name + " ended by itself, with status " + std::to_string(WEXITSTATUS(status));
    }
  }
  return {};
}

}  // namespace tenure::stress
