// Any script of requests, releases, cancellations, evictions and downgrades: the local space does
// what the rule says (space/rehearsal.hpp).
#include <cstddef>
#include <cstdint>

#include "space/local/local_space.hpp"
#include "space/rehearsal.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size > 4096) return 0;
  tenure::Rehearsal rehearsal{new tenure::local::LocalSpace};
  rehearsal.play({data, size});  // What it throws ends the fuzzer.
  return 0;
}
