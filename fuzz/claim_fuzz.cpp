// Any bytes as a claim, and as a path that somebody has typed.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <optional>
#include <string>
#include <string_view>

#include "tenure/claim.hpp"
#include "tenure/error.hpp"
#include "tenure/path.hpp"

namespace {

void require(bool holds, std::string_view what) {
  if (holds) return;
  std::cerr << "claim_fuzz: " << what << '\n';
  std::abort();
}

std::optional<tenure::Path> typed(const std::string& text) {
  try {
    return tenure::Path{text};
  } catch (const tenure::BadRequest& error) {
    require(!std::string_view{error.what()}.empty(), "no message");
    return std::nullopt;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(data, data + size);
  // What is accepted comes back from its own text.
  if (const auto claim = tenure::Claim::parse(text)) {
    const auto again = tenure::Claim::parse(claim->text());
    require(again && *again == *claim, "the text of a claim does not parse back");
  } else {
    require(!claim.error().empty(), "no message");
  }
  // Whatever the text form accepts, a typed path is too, and means the same.
  const std::optional<tenure::Path> path = typed(text);
  if (const auto strict = tenure::Path::parse(text)) {
    require(path && *path == *strict, "a typed path means something else");
  }
  if (path) require(typed(path->text()) == path, "the text of a typed path means something else");
  return 0;
}
