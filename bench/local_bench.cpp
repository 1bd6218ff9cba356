#include <array>

#include "bench/program.hpp"
#include "bench/questions.hpp"

int main(int argc, char** argv) {
  using namespace tenure::bench;
  static constexpr std::array questions = {
      Question{.name = "uncontended",
               .text = "lock + release of a free key; who is faster?",
               .ask = &ask_uncontended},
      Question{.name = "uncontended",
               .text = "the same in a program without threads",
               .ask = &ask_uncontended_alone,
               .threads = Threads::never},
      Question{.name = "deep",
               .text = "does a lock five deep cost more when 20,000 leaves beside it are held?",
               .ask = &ask_deep},
      Question{.name = "rotation",
               .text = "do many keys in rotation cost more than one, or more than a map of them?",
               .ask = &ask_rotation},
      Question{.name = "claims",
               .text = "what do several claims in one request cost?",
               .ask = &ask_claims},
      Question{.name = "handoff",
               .text = "does a hand-off cost more when 8,000 coroutines wait than when 100 do?",
               .ask = &ask_handoff},
      Question{.name = "threads",
               .text = "do two threads on different keys gain what private mutexes gain?",
               .ask = &ask_threads},
      Question{.name = "memory",
               .text = "is the memory of a million paths given back?",
               .ask = &ask_memory},
      Question{.name = "waiters",
               .text = "what does a waiting coroutine take, beside its frame?",
               .ask = &ask_waiters},
      Question{.name = "curve",
               .text = "how do costs grow with what else is held, waits and is asked for?",
               .ask = &ask_curve},
  };
  return run_program(argc, argv, questions);
}
