// child.hpp: a process of a question (tests/kit), pinned to a core.
//
//   Child child{core, [](const Line& line) { while (auto words = line.next()) line.send({...}); }};
//   Words answer = child.ask({1, 2});
//
// A child that throws ends this process too: others may be waiting for it.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <csignal>
#include <cstddef>

#include "tests/kit/process.hpp"

namespace tenure::bench::stored {

using kit::Line;
using kit::Shared;
using kit::Signal;
using Words = kit::Numbers;

class Child {
 public:
  Child(std::size_t core, const kit::Process::Body& body);  // All its threads run on that core.

  void tell(const Words& words) { process_.line().send(words); }
  Words hear();  // Throws when the child has ended, or is silent for two minutes.
  Words ask(const Words& words) {
    tell(words);
    return hear();
  }

  void kill() noexcept { process_.signal(SIGKILL); }  // Does not wait for the end.
  [[nodiscard]] pid_t pid() const noexcept { return process_.pid(); }

 private:
  kit::Process process_;
};

// CLOCK_MONOTONIC, which all processes of a machine share.
[[nodiscard]] inline double now() noexcept {
  return static_cast<double>(std::chrono::steady_clock::now().time_since_epoch().count());
}

}  // namespace tenure::bench::stored
