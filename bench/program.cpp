#include "bench/program.hpp"

#include <sched.h>
#include <sys/single_threaded.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

#include "tests/kit/process.hpp"

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

bool answered(const Question& question, Effort effort) {
  kit::Process process{[&](const kit::Line& /*line*/) {
    std::exit(ask(question, effort));  // NOLINT(concurrency-mt-unsafe)
  }};
  const int status = process.exit_status();
  if (status > 128) {
    (void)std::fprintf(stderr, "'%s' was ended by signal %d\n", std::string{question.name}.c_str(),
                       status - 128);
  }
  return status == EXIT_SUCCESS;
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
  const kit::Process process{[&](const kit::Line& line) { line.send(measure()); }};
  std::optional<std::vector<double>> figures = process.line().next();
  if (!figures) throw std::runtime_error("a process of the benchmark ended before it answered");
  return *std::move(figures);
}

std::size_t cores() { return allowed_cores().size(); }

void pin_to_core(std::size_t n, pid_t who) {
  // The cores of the process, before its first thread was pinned.
  static const std::vector<int> allowed = allowed_cores();
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(allowed[n % allowed.size()], &set);
  if (::sched_setaffinity(who, sizeof set, &set) != 0) {
    throw std::system_error(errno, std::generic_category(), "sched_setaffinity");
  }
}

double resident_bytes() {
  std::ifstream status{"/proc/self/status"};
  for (std::string line; std::getline(status, line);) {
    constexpr std::string_view field = "RssAnon:";
    if (line.starts_with(field)) return 1024 * std::stod(line.substr(field.size()));
  }
  throw std::runtime_error("/proc/self/status has no RssAnon");
}

}  // namespace tenure::bench
