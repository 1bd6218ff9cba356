// No rival: a process that waits for a lock should do next to nothing. The kernel counts, over all
// threads of a process.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "bench/program.hpp"
#include "bench/stored/child.hpp"
#include "bench/stored/ours.hpp"
#include "bench/stored/questions.hpp"
#include "bench/stored/supervise.hpp"

namespace tenure::bench::stored {
namespace {

constexpr std::size_t waiting = 4;

double switches_of(pid_t process) {
  double sum = 0;
  const std::string tasks = "/proc/" + std::to_string(process) + "/task";
  for (const auto& task : std::filesystem::directory_iterator{tasks}) {
    std::ifstream status{task.path() / "status"};
    for (std::string word; status >> word;) {
      if (!word.ends_with("voluntary_ctxt_switches:")) continue;
      double count = 0;
      status >> count;
      sum += count;
    }
  }
  return sum;
}

// Opens the space, requests the key if told to, and waits for its end.
Child process_in(const std::filesystem::path& file, std::size_t core, bool asks) {
  return {core, [=](const Line& line) {
            const Space space = open_file(file);
            line.send({});
            const Hold hold = asks ? space.lock(book) : Hold{};
            line.send({});
            (void)line.next();
          }};
}

}  // namespace

void ask_idle(Report& report) {
  const std::filesystem::path file = scratch_path("idle");
  std::vector<Child> children;
  children.push_back(process_in(file, 0, true));
  children.back().hear();
  children.back().hear();  // It holds the key.
  for (std::size_t i = 0; i <= waiting; ++i) {
    children.push_back(process_in(file, i, i < waiting));
    children.back().hear();
  }
  std::this_thread::sleep_for(std::chrono::milliseconds{report.effort().of(1'000, 50)});

  const std::chrono::milliseconds time{report.effort().of(10'000, 200)};
  std::vector<double> before;
  for (const Child& child : children) before.push_back(switches_of(child.pid()));
  std::this_thread::sleep_for(time);
  std::vector<double> rates;
  for (std::size_t i = 0; i < children.size(); ++i) {
    const double switches = switches_of(children[i].pid()) - before[i];
    rates.push_back(switches / std::chrono::duration<double>(time).count());
  }
  report.figure("a process that waits, worst of 4",
                *std::max_element(rates.begin() + 1, rates.end() - 1), "/s", at_most(1.5));
  report.figure("the one that holds", rates.front(), "/s");
  report.figure("one that does neither", rates.back(), "/s");
}

}  // namespace tenure::bench::stored
