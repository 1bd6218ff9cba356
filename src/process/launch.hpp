// launch.hpp: how a guardian becomes the parent of a command: vfork, then exec.
//
// With vfork the command costs no copy of page tables, and a failure before exec is simply written
// to the parent's memory. The parent has one thread, with all signals blocked and no handlers, so
// nothing else touches that memory meanwhile; everything that allocates is done before.
#pragma once

#include <sys/types.h>

#include <array>
#include <csignal>
#include <string_view>
#include <vector>

#include "process/command.hpp"
#include "process/guardian.hpp"
#include "process/messages.hpp"

namespace tenure::process {

// A Command as it came in an Order: texts point into the message.
// NOLINTBEGIN(readability-redundant-member-init): designated initializers may leave them out.
struct Launch {
  struct Standard {
    Target::Kind kind = Target::Kind::inherit;
    const char* path = "";
    int descriptor = -1;
  };
  const char* directory = "";
  std::array<Standard, 3> standard{};
  std::vector<const char*> words{};      // With a null pointer at the end, as exec wants it.
  std::vector<const char*> variables{};  // The whole environment, likewise.
  std::vector<int> descriptors{};
  Group group = Group::session;
  pid_t owner_group = 0;
  sigset_t signal_mask{};
};
// NOLINTEND(readability-redundant-member-init)

// Fills in the texts. `text` ends with a NUL and has as many texts as the order says.
void read_texts(const Order& order, std::string_view text, Launch& launch);

struct Launched {
  pid_t pid = 0;  // 0: not started, for `error` in `step`.
  Step step = Step::process;
  int error = 0;
};
[[nodiscard]] Launched start(const Launch& launch);

}  // namespace tenure::process
