#include "tests/stress/fleet.hpp"

#include <csignal>
#include <filesystem>
#include <thread>
#include <utility>

namespace tenure::stress {
namespace {

constexpr std::chrono::milliseconds glance{2};

}  // namespace

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
  kit::Program program{.words = {program_, directory_, worker.name, std::to_string(slot)},
                       // The worker waits for it; if it is told to end earlier, it must not die.
                       .block = {SIGTERM}};
  program.words.insert(program.words.end(), more.begin(), more.end());
  if (enter_) program.enter = [this, slot] { enter_(slot); };
  note("start", worker.name);
  worker.process = std::make_unique<kit::Process>(program);
}

void Fleet::kill(std::size_t slot) {
  Worker& worker = workers_[slot];
  if (!worker.process) return;
  note("kill", worker.name);
  worker.process->kill();
  worker = {};
}

void Fleet::stop(std::size_t slot) {
  Worker& worker = workers_[slot];
  note("stop", worker.name);
  worker.process->signal(SIGSTOP);
  worker.stopped = true;
}

void Fleet::go_on(std::size_t slot) {
  Worker& worker = workers_[slot];
  if (!std::exchange(worker.stopped, false)) return;
  worker.process->go_on();
  note("continue", worker.name);
}

std::string Fleet::reap() {
  for (Worker& worker : workers_) {
    if (!worker.process || worker.process->runs()) continue;
    const Worker gone = std::exchange(worker, {});
    const int status = gone.process->exit_status();
    if (gone.told && status == 0) {
      note("end", gone.name);
    } else if (status > 128) {
      return gone.name + " died of signal " + std::to_string(status - 128);
    } else {
      return gone.name + " ended by itself, with status " + std::to_string(status);
    }
  }
  return {};
}

std::string Fleet::end_all(std::chrono::seconds limit, const Describe& describe) {
  for (Worker& worker : workers_) {
    if (!worker.process) continue;
    worker.told = true;
    worker.process->signal(SIGTERM);
  }
  const auto until = std::chrono::steady_clock::now() + limit;
  for (std::size_t slot = 0; slot < workers_.size(); ++slot) {
    while (running(slot)) {
      if (std::string fault = reap(); !fault.empty()) return fault;
      if (std::chrono::steady_clock::now() > until) {
        return name(slot) + " does not end; " + describe(slot);
      }
      std::this_thread::sleep_for(glance);
    }
  }
  return {};
}

std::string program_beside(const std::string& name) {
  return std::filesystem::read_symlink("/proc/self/exe").parent_path() / name;
}

}  // namespace tenure::stress
