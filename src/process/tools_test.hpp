// tools_test.hpp: what the tests of this room share. Processes of a command are found by a variable
// that they inherit, wherever they move.
#pragma once

#include <poll.h>
#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>

#include <vector>

#include "process/guardian.hpp"
#include "tests/kit/patience.hpp"

namespace tenure::process {

inline std::string new_mark() {
  static std::atomic<int> count = 0;
  return std::to_string(::getpid()) + "-" + std::to_string(++count) + ".";
}

// A shell script whose processes can be found.
inline Command marked_shell(std::string script, const std::string& mark) {
  Command command = Command::shell(std::move(script));
  command.environment = {"TENURE_TEST_MARK=" + mark};
  return command;
}

inline std::string read_file(const std::filesystem::path& file) {
  std::ifstream in{file, std::ios::binary};
  return {std::istreambuf_iterator<char>{in}, {}};
}

// Of living processes: the environment of a zombie is empty.
inline std::vector<pid_t> find_marked(const std::string& mark) {
  std::vector<pid_t> out;
  std::error_code gone;
  for (const auto& entry : std::filesystem::directory_iterator{"/proc"}) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    if (read_file(entry.path() / "environ").contains("TENURE_TEST_MARK=" + mark)) {
      out.push_back(std::stoi(name));
    }
  }
  return out;
}

inline char state_of(pid_t pid) {
  const std::string stat = read_file("/proc/" + std::to_string(pid) + "/stat");
  const std::size_t name_end = stat.rfind(')');
  return name_end == std::string::npos ? 'X' : stat.at(name_end + 2);
}

// How often it went to sleep by itself.
inline long sleeps_of(pid_t pid) {
  constexpr std::string_view name = "\nvoluntary_ctxt_switches:";
  const std::string status = read_file("/proc/" + std::to_string(pid) + "/status");
  const std::size_t at = status.find(name);
  return at == std::string::npos ? 0 : std::stol(status.substr(at + name.size()));
}

// Asks again and again; false when the patience of tests ends.
template <class State>
bool wait_until(State state) {
  const auto limit = std::chrono::steady_clock::now() + kit::patience();
  while (!state()) {
    if (std::chrono::steady_clock::now() > limit) return false;
    std::this_thread::yield();
  }
  return true;
}

// Waits until exactly so many marked processes are there, and all sleep: a shell on its way there
// might start one more.
inline bool wait_for_sleepers(const std::string& mark, std::size_t count) {
  return wait_until([&] {
    const std::vector<pid_t> found = find_marked(mark);
    return found.size() == count && std::ranges::all_of(found, [](pid_t pid) {
             return read_file("/proc/" + std::to_string(pid) + "/comm") == "sleep\n";
           });
  });
}

// Gone, or a zombie.
inline bool is_dead(pid_t pid) {
  const char state = state_of(pid);
  return state == 'X' || state == 'Z';
}

inline Event next_event(Guardian& guardian) {
  for (;;) {
    pollfd wait = readable(guardian.descriptor());
    const int limit_ms = static_cast<int>(std::chrono::milliseconds{kit::patience()}.count());
    if (::poll(&wait, 1, limit_ms) == 0) kit::give_up("an event of a guardian");
    if (const std::optional<Event> event = guardian.next()) return *event;
  }
}

// Skips others, and throws where this one can't come any more.
inline Event wait_for(Guardian& guardian, Event::Kind kind) {
  for (;;) {
    const Event event = next_event(guardian);
    if (event.kind == kind) return event;
    if (event.kind == Event::Kind::guardian_dead || event.kind == Event::Kind::failed) {
      throw std::runtime_error("the guardian reported " +
                               std::to_string(static_cast<int>(event.kind)) + ", value " +
                               std::to_string(event.value));
    }
  }
}

// The status that it exits with.
inline int run(Guardian& guardian, const Command& command) {
  guardian.launch(command);
  return wait_for(guardian, Event::Kind::exited).value;
}

// A script that leaves a child, a pair in a session of its own, and a daemon that forked twice.
inline constexpr std::string_view leaves_three_kinds =
    "sleep 1000 & "
    "setsid sh -c 'sleep 1000 & exec sleep 1000' & "
    "(setsid sh -c 'sleep 1000 & exit' &) ; "
    "echo left; ";

}  // namespace tenure::process
