// Any script of requests, releases, cancellations, evictions, downgrades, changes of limits and
// holds that are asked for again: the local space does what the rule says (space/rule_replay.hpp).
#include <cstddef>
#include <cstdint>

#include "space/local/local_space.hpp"
#include "space/rule_replay.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size > 4096) return 0;
  tenure::RuleReplay replay{new tenure::local::LocalSpace};
  replay.play({data, size});  // What it throws ends the fuzzer.
  return 0;
}
