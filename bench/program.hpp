// program.hpp: the frame of a benchmark program: its arguments, its questions, its exit status.
//
//   local_bench            asks every question; exits with 1 when a bar is missed
//   local_bench deep       asks one; a question that is not asked here is no error (bench.sh)
//   local_bench --smoke    runs briefly and holds no bars
//
// Every question runs in a process of its own, forked from one that has done nothing, so that no
// heap, space or thread of one can colour the next. It has already had a second thread, as every
// real program has: until there is one, glibc's mutex, and our shard lock with it, leaves out its
// atomic operations. `Threads::never` is for the one figure that shows what that is worth.
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

// Figures of something done in a forked process. Throws std::runtime_error when that fails.
[[nodiscard]] std::vector<double> in_a_process(const std::function<std::vector<double>()>& measure);

// Keeps the calling thread, or another process's first one, on one core: the n-th of those that
// this process may use.
void pin_to_core(std::size_t n, pid_t who = 0);
[[nodiscard]] std::size_t cores();

[[nodiscard]] double resident_bytes();

}  // namespace tenure::bench
