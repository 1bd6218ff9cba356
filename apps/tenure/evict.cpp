// `tenure evict`, `tenure ask` and `tenure limit`: taking a lock away, asking for it, and changing
// how many may hold it.
#include <fmt/core.h>

#include <cstddef>
#include <cstdio>
#include <string>
#include <string_view>

#include "exit_status.hpp"
#include "operate.hpp"
#include "space_choice.hpp"
#include "terminal.hpp"

namespace tenure::cli {
namespace {

// The same report of both commands: `done` is what they call success.
int report(Token token, bool found, bool json, std::string_view done) {
  if (json) {
    fmt::print("{{\n  \"token\": \"{}\",\n  \"{}\": {}\n}}\n", token.value, done, found);
  } else if (!found) {
    fmt::print(stderr, "tenure: there is no ticket with token {}; 'tenure ls' lists the tokens\n",
               token.value);
  }
  return found ? exit_ok : exit_failure;
}

// Nothing there is no failure: nothing is there afterwards either way.
int evict_below(const OpenSpace& in, const EvictOptions& options, const Path& path) {
  const std::size_t count =
      options.now ? in.space.evict_below_now(path) : in.space.evict_below(path);
  if (options.json) {
    fmt::print("{{\n  \"evicted\": {}\n}}\n", count);
  } else {
    fmt::print("evicted {} {} of '{}' and below\n", count, count == 1 ? "ticket" : "tickets",
               printable(path.text()));
  }
  return exit_ok;
}

}  // namespace

int evict(const EvictOptions& options) {
  const OpenSpace in = open_existing_space(choose_space(options.space));
  if (options.below) return evict_below(in, options, *options.below);
  const bool found =
      options.now ? in.space.evict_now(options.token) : in.space.evict(options.token);
  return report(options.token, found, options.json, "evicted");
}

int ask(const AskOptions& options) {
  const OpenSpace in = open_existing_space(choose_space(options.space));
  return report(options.token, in.space.ask_to_leave(options.token), options.json, "asked");
}

// Nobody there is no failure: the next command decides, and should use the same number.
int limit(const LimitOptions& options) {
  const OpenSpace in = open_existing_space(choose_space(options.space));
  const Claim& limit = options.limit;
  const std::size_t count = in.space.set_limit(limit);
  const std::string path = printable(limit.path.text());
  if (options.json) {
    fmt::print("{{\n  \"limit\": {},\n  \"tickets\": {}\n}}\n", limit.mode.limit(), count);
  } else if (count == 0) {
    fmt::print("nobody holds '{}' with a limit, or waits for it: the next request decides\n", path);
  } else {
    fmt::print("the limit of '{}' is {} for {} {}\n", path, limit.mode.limit(), count,
               count == 1 ? "ticket" : "tickets");
  }
  return exit_ok;
}

}  // namespace tenure::cli
