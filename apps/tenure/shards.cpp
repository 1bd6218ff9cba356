// `tenure shards`: the shards of a sharded space: listing them, changing the map, finding a path.
#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>

#include "exit_status.hpp"
#include "operate.hpp"
#include "space_choice.hpp"
#include "tenure/error.hpp"
#include "tenure/shards.hpp"
#include "terminal.hpp"

namespace tenure::cli {
namespace {

using Json = nlohmann::ordered_json;

std::string json_text(const ShardsInfo& info, const std::string& url) {
  Json out = Json::object();
  out["space"] = url;
  out["version"] = info.version;
  out["names"] = info.names;
  out["changing_to"] = info.changing.empty() ? Json(nullptr) : Json(info.changing);
  out["shards"] = Json::array();
  for (const ShardInfo& shard : info.shards) {
    out["shards"].push_back({{"name", shard.name},
                             {"url", shard.url},
                             {"in_map", shard.in_map},
                             {"version", shard.version},
                             {"fault", shard.fault.empty() ? Json(nullptr) : Json(shard.fault)}});
  }
  return out.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

int print(const ShardsInfo& info, const std::string& url, bool json) {
  const bool healthy = info.version != 0 && info.changing.empty() &&
                       std::ranges::none_of(info.shards, [](const ShardInfo& shard) {
                         return shard.in_map && !shard.fault.empty();
                       });
  if (json) {
    fmt::print("{}", json_text(info, url));
    return healthy ? exit_ok : exit_failure;
  }
  std::size_t widest = 0;
  for (const ShardInfo& shard : info.shards) widest = std::max(widest, shard.name.size());
  fmt::print("{}: version {} of the map\n", printable(url), info.version);
  for (const ShardInfo& shard : info.shards) {
    const std::string state = shard.in_map ? "in the map" : "not in the map";
    fmt::print("  {:<{}}  {:<14}  {}{}\n", shard.name, widest, state, printable(shard.url),
               shard.fault.empty() ? "" : ": " + printable(shard.fault));
  }
  if (info.version == 0) {
    fmt::print(
        "There is no map yet: run 'tenure shards set NAME...' with the names of the shards.\n");
  }
  if (!info.changing.empty()) {
    fmt::print(
        "A change has not been finished: run 'tenure shards set {}' to finish it, or 'tenure "
        "shards set {}' to take it back.\n",
        fmt::join(info.changing, " "), fmt::join(info.names, " "));
  }
  return healthy ? exit_ok : exit_failure;
}

}  // namespace

int shards(const ShardsOptions& options) {
  const SpaceChoice choice = choose_space(options.space);
  switch (options.action) {
    case ShardsOptions::Action::set:
      set_shards(choice.url, options.names, {.wait = options.wait});
      break;
    case ShardsOptions::Action::where:
      for (const Path& path : options.paths) {
        fmt::print("{}  {}\n", shard_of(choice.url, path), path.text());
      }
      return exit_ok;
    case ShardsOptions::Action::list: break;
  }
  return print(tenure::shards(choice.url), choice.shown, options.json);
}

}  // namespace tenure::cli
