// Any script of requests, releases, cancellations, evictions and downgrades: the local space does
// what the rule says (space/local/rehearsal.hpp).
#include <cstddef>
#include <cstdint>

#include "space/local/rehearsal.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size > 4096) return 0;
  tenure::local::Rehearsal rehearsal;
  rehearsal.play({data, size});  // What it throws ends the fuzzer.
  return 0;
}
