// program.hpp: the frame of a benchmark program: its arguments, its questions, its exit status.
//
//   local_bench            asks every question; exits with 1 if a bar is missed
//   local_bench deep       asks one; a question of another program is no error (bench.sh)
//   local_bench --smoke    runs briefly and checks no bars
//
// Every question runs in its own process, forked from one that has done nothing, so that no heap,
// space or thread of one question affects the next. The process has already had a second thread, as
// real programs have: before that, glibc's mutex, and our shard lock with it, omits its atomic
// operations. `Threads::never` is for the one figure that shows the difference.
#pragma once

#include <sys/types.h>

#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "bench/ratio.hpp"

namespace tenure::bench {

enum class Threads : unsigned char { had_some, never };

struct Question {
  std::string_view name;
  std::string_view text;
  void (*ask)(Report& report);
  Threads threads = Threads::had_some;
};

int run_program(int argc, char** argv, std::span<const Question> questions);

// Figures of work in a forked process. Throws std::runtime_error if that fails.
[[nodiscard]] std::vector<double> in_a_process(const std::function<std::vector<double>()>& measure);

// Pins the calling thread, or the first thread of another process, to one core: the n-th of those
// that this process may use.
void pin_to_core(std::size_t n, pid_t who = 0);
[[nodiscard]] std::size_t cores();

// Of this process, without the pages of mapped files: the kernel can drop those at any time.
[[nodiscard]] double resident_bytes();

}  // namespace tenure::bench
