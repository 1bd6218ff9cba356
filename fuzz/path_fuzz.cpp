// Any bytes as the text of a path, and as its segments.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <string>
#include <string_view>
#include <vector>

#include "tenure/path.hpp"

namespace {

void require(bool holds, std::string_view what) {
  if (holds) return;
  std::cerr << "path_fuzz: " << what << '\n';
  std::abort();
}

// Text either is the text of its path, or is refused with a place in it.
void try_as_text(std::string_view text) {
  const auto path = tenure::Path::parse(text);
  if (path) {
    require(path->text() == text, "a second text for one path");
  } else {
    require(path.error().at <= text.size(), "the error is outside the text");
    require(!path.error().message(text).empty(), "no message");
  }
}

using Segments = std::vector<std::string_view>;

// The first byte of each piece says how many bytes it has.
Segments cut(std::string_view bytes) {
  Segments segments;
  while (!bytes.empty() && segments.size() < tenure::Path::max_depth) {
    const auto size = static_cast<unsigned char>(bytes.front());
    segments.push_back(bytes.substr(1, size));
    bytes.remove_prefix(std::min<std::size_t>(bytes.size(), size + 1U));
  }
  return segments;
}

tenure::Path path_of(const Segments& segments) {
  tenure::Path path;
  for (const std::string_view segment : segments) path.append(segment);
  return path;
}

// Segments come back, and another list of segments has another text.
void try_as_segments(std::string_view bytes, std::string_view neighbour) {
  if (bytes.size() > tenure::Path::max_bytes / 2) return;
  const Segments segments = cut(bytes);
  const Segments others = cut(neighbour);
  const tenure::Path path = path_of(segments);
  const tenure::Path other = path_of(others);
  const auto parsed = tenure::Path::parse(path.text());
  require(parsed && *parsed == path, "the text does not parse back");
  const bool same = segments == others;
  require((path == other) == same, "equality");
  require((path.text() == other.text()) == same, "two paths with one text");
  require(((path <=> other) == 0) == same, "order");
  require(!same || path.hash() == other.hash(), "hash");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string bytes(data, data + size);
  try_as_text(bytes);
  std::string neighbour = bytes;  // One byte off, at a place that depends on the content.
  if (!neighbour.empty()) {
    const std::size_t at = static_cast<unsigned char>(neighbour.back()) % neighbour.size();
    neighbour[at] = static_cast<char>(neighbour[at] ^ 1);
  }
  try_as_segments(bytes, bytes);
  try_as_segments(bytes, neighbour);
  return 0;
}
