#include "bench/program.hpp"

#include <sched.h>
#include <sys/prctl.h>
#include <sys/single_threaded.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>

namespace tenure::bench {
namespace {

std::vector<int> allowed_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  ::sched_getaffinity(0, sizeof set, &set);
  std::vector<int> allowed;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &set)) allowed.push_back(core);
  }
  return allowed;
}

void print_machine(std::string_view program, Effort effort) {
  std::array<double, 3> load{};
  ::getloadavg(load.data(), static_cast<int>(load.size()));
  (void)std::printf("%.*s: %zu cores, load average %.2f %.2f %.2f%s\n",
                    static_cast<int>(program.size()), program.data(), cores(), load[0], load[1],
                    load[2], effort.brief ? ", brief: no bar is held" : "");
  (void)std::fflush(stdout);
}

// The exit status of the question's process.
int ask(const Question& question, Effort effort) {
  if (question.threads == Threads::had_some) std::thread{[] {}}.join();
  Report report{effort};
  report.heading(question.name, question.text);
  if (__libc_single_threaded != 0) report.note("the process has never had a second thread");
  question.ask(report);
  return report.missed() == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

int wait_for(pid_t child) {
  int status = 0;
  while (::waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) throw std::system_error(errno, std::generic_category(), "waitpid");
  }
  return status;
}

pid_t fork_or_throw() {
  (void)std::fflush(stdout);
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child < 0) throw std::system_error(errno, std::generic_category(), "fork");
  if (child == 0) die_with(parent, SIGKILL);
  return child;
}

bool answered(const Question& question, Effort effort) {
  const pid_t child = fork_or_throw();
  if (child == 0) std::exit(ask(question, effort));  // NOLINT(concurrency-mt-unsafe)
  const int status = wait_for(child);
  if (WIFSIGNALED(status)) {
    (void)std::fprintf(stderr, "'%s' was ended by signal %d\n", std::string{question.name}.c_str(),
                       WTERMSIG(status));
  }
  return status == 0;
}

int run(std::string_view program, std::span<char*> arguments, std::span<const Question> questions) {
  Effort effort;
  std::string_view wanted;
  for (const std::string_view argument : arguments) {
    (argument == "--smoke") ? void(effort.brief = true) : void(wanted = argument);
  }
  const auto asked = [&](const Question& question) {
    return wanted.empty() || question.name == wanted;
  };
  if (std::ranges::none_of(questions, asked)) {
    (void)std::fprintf(stderr, "%s does not ask '%s'\n", std::string{program}.c_str(),
                       std::string{wanted}.c_str());
    return EXIT_SUCCESS;
  }

  print_machine(program, effort);
  std::size_t missed = 0;
  for (const Question& question : questions) {
    if (asked(question) && !answered(question, effort)) ++missed;
  }
  return missed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

}  // namespace

int run_program(int argc, char** argv, std::span<const Question> questions) {
  const std::span<char*> arguments{argv, static_cast<std::size_t>(argc)};
  std::string_view program = arguments.front();
  program.remove_prefix(program.rfind('/') + 1);
  try {
    return run(program, arguments.subspan(1), questions);
  } catch (const std::exception& error) {
    (void)std::fprintf(stderr, "%s\n", error.what());
    return EXIT_FAILURE;
  }
}

std::vector<double> in_a_process(const std::function<std::vector<double>()>& measure) {
  std::array<int, 2> ends{};
  if (::pipe(ends.data()) != 0) throw std::system_error(errno, std::generic_category(), "pipe");
  const pid_t child = fork_or_throw();
  if (child == 0) {
    const std::vector<double> figures = measure();
    const auto bytes = static_cast<ssize_t>(figures.size() * sizeof(double));
    ::_exit(::write(ends[1], figures.data(), static_cast<std::size_t>(bytes)) == bytes ? 0 : 1);
  }
  ::close(ends[1]);
  std::vector<double> figures;
  double figure = 0;
  while (::read(ends[0], &figure, sizeof figure) == sizeof figure) figures.push_back(figure);
  ::close(ends[0]);
  if (wait_for(child) != 0) throw std::runtime_error("a measuring process failed");
  return figures;
}

void die_with(pid_t parent, int signal) {
  ::prctl(PR_SET_PDEATHSIG, signal);
  if (::getppid() != parent) ::_exit(EXIT_FAILURE);
}

std::size_t cores() { return allowed_cores().size(); }

void pin_to_core(std::size_t n, pid_t who) {
  // Those of the process, before its first thread was pinned.
  static const std::vector<int> allowed = allowed_cores();
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(allowed[n % allowed.size()], &set);
  if (::sched_setaffinity(who, sizeof set, &set) != 0) {
    throw std::system_error(errno, std::generic_category(), "sched_setaffinity");
  }
}

double resident_bytes() {
  std::ifstream statm{"/proc/self/statm"};
  double all = 0;
  double resident = 0;
  statm >> all >> resident;
  if (!statm) throw std::runtime_error("/proc/self/statm can't be read");
  return resident * static_cast<double>(::sysconf(_SC_PAGESIZE));
}

}  // namespace tenure::bench
