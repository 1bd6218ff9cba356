#include <fmt/core.h>

#include <cstdio>

#include "exit_status.hpp"
#include "operate.hpp"
#include "space_choice.hpp"

namespace tenure::cli {

int evict(const EvictOptions& options) {
  const OpenSpace in = open_existing_space(choose_space(options.space));
  const bool found =
      options.now ? in.space.evict_now(options.token) : in.space.evict(options.token);
  if (options.json) {
    fmt::print("{{\n  \"token\": \"{}\",\n  \"evicted\": {}\n}}\n", options.token.value, found);
  } else if (!found) {
    fmt::print(stderr, "tenure: there is no ticket with token {}; 'tenure ls' lists the tokens\n",
               options.token.value);
  }
  return found ? exit_ok : exit_failure;
}

}  // namespace tenure::cli
