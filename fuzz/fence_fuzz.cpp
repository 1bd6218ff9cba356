// Any bytes as the text of a fence.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <string>
#include <string_view>

#include "tenure/fence.hpp"

namespace {

void require(bool holds, std::string_view what) {
  if (holds) return;
  std::cerr << "fence_fuzz: " << what << '\n';
  std::abort();
}

// Text either is the text of its fence, or is refused with a reason.
void try_as_text(std::string_view text) {
  auto fence = tenure::Fence::parse(text);
  if (!fence) return require(!fence.error().empty(), "no reason");
  require(fence->text() == text, "a second text for one fence");
  // Whatever was saved, it works: the largest token passes, and after it no smaller one.
  const tenure::Token largest{~std::uint64_t{}};
  require(fence->admit(largest, tenure::Mode::exclusive()), "the largest token is refused");
  require(!fence->admit({largest.value - 1}, tenure::Mode::shared()), "a smaller one passes");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string bytes(data, data + size);
  try_as_text(bytes);
  // Most bytes have no version in front; with it the rest gets its turn.
  try_as_text("tenure-fence/1 " + bytes);
  return 0;
}
