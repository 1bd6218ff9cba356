#include "tests/stress/fleet.hpp"

#include <signal.h>  // NOLINT: kill is POSIX's.
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

namespace tenure::stress {

Fleet::Fleet(std::string program, std::string directory, std::size_t workers, Enter enter)
    : program_(std::move(program)),
      directory_(std::move(directory)),
      enter_(std::move(enter)),
      log_(directory_ + "/driver.log"),
      workers_(workers) {}

Fleet::~Fleet() {
  for (std::size_t slot = 0; slot < workers_.size(); ++slot) kill(slot);
}

// NOLINTNEXTLINE(bugprone-easily-swappable-parameters): as in the line that it writes.
void Fleet::note(std::string_view what, std::string_view name) const {
  log_.write(std::to_string(boot_ns()).append(" ").append(what).append(" ").append(name) + '\n');
}

void Fleet::start(std::size_t slot, const std::vector<std::string>& more) {
  Worker& worker = workers_[slot];
  const std::string number = std::to_string(++started_);
  worker = {};
  worker.name = "worker-" + std::string(5 - number.size(), '0') + number;
  std::vector<std::string> words = {program_, directory_, worker.name, std::to_string(slot)};
  words.insert(words.end(), more.begin(), more.end());
  std::vector<char*> arguments;
  arguments.reserve(words.size() + 1);
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  const pid_t driver = ::getpid();
  note("start", worker.name);
  // The worker waits for this signal; told to end before it can, it must not die of it.
  sigset_t signals;
  sigset_t before;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  ::pthread_sigmask(SIG_BLOCK, &signals, &before);
  worker.pid = ::fork();
  if (worker.pid != 0) ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (worker.pid < 0) throw std::system_error(errno, std::generic_category(), "fork");
  if (worker.pid != 0) return;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (enter_) enter_(slot);
  if (::getppid() == driver) ::execv(program_.c_str(), arguments.data());
  ::_exit(127);
}

void Fleet::kill(std::size_t slot) {
  Worker& worker = workers_[slot];
  if (worker.pid == 0) return;
  note("kill", worker.name);
  ::kill(worker.pid, SIGKILL);
  ::waitpid(worker.pid, nullptr, 0);
  worker = {};
}

void Fleet::stop(std::size_t slot) {
  Worker& worker = workers_[slot];
  note("stop", worker.name);
  ::kill(worker.pid, SIGSTOP);
  worker.stopped = true;
}

void Fleet::go_on(std::size_t slot) {
  Worker& worker = workers_[slot];
  if (!std::exchange(worker.stopped, false)) return;
  ::kill(worker.pid, SIGCONT);
  note("continue", worker.name);
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
      note("end", gone.name);
    } else if (WIFSIGNALED(status)) {
      return gone.name + " died of signal " + std::to_string(WTERMSIG(status));
    } else {
      return gone.name + " ended by itself, with status " + std::to_string(WEXITSTATUS(status));
    }
  }
  return {};
}

}  // namespace tenure::stress
