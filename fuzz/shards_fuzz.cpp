// Any bytes as the list of shards, and as the map that a shard stores.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <string>
#include <string_view>

#include "space/sharded/shard_list.hpp"
#include "space/sharded/shard_map.hpp"
#include "tenure/error.hpp"

namespace {

using namespace tenure::sharded;

void require(bool holds, std::string_view what) {
  if (holds) return;
  std::cerr << "shards_fuzz: " << what << '\n';
  std::abort();
}

constexpr std::string_view secret = "correct-horse";

bool tells(std::string_view text) { return text.find(secret) != std::string_view::npos; }

void read_list(std::string_view text) {
  try {
    for (const ShardAddress& one : parse_list(text)) {
      require(name_fault(one.name).empty(), "a name that is none");
      require(tenure::is_store(one.url), "a URL that is none");
    }
  } catch (const tenure::Error& error) {
    require(!tells(error.what()), "a password is told");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(data, data + size);
  if (tells(text)) return 0;
  read_list(text);
  read_list("east postgres://me:" + std::string{secret} + "@host/x\n" + text);
  const auto map = parse_map(text);
  if (!map.has_value()) return 0;
  require(map->map.version != 0 && !map->map.names.empty(), "an empty map");
  const auto again = parse_map(map->map.text(map->self));
  require(again.has_value() && again->map == map->map && again->self == map->self,
          "a map that is read otherwise than it was written");
  require(map->map.has(home_of(text, map->map.names)), "a home that is not in the map");
  return 0;
}
