#include "space/sharded/shard_map.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "tenure/detail/reserved_keys.hpp"
#include "tenure/error.hpp"

namespace tenure::sharded {
namespace {

using Json = nlohmann::ordered_json;

constexpr int map_format = 1;

// FNV-1a, and the finalizer of SplitMix64: small, and the same everywhere.
std::uint64_t hash(std::string_view text) noexcept {
  std::uint64_t value = 0xcbf29ce484222325;
  for (const char byte : text) {
    value = (value ^ static_cast<unsigned char>(byte)) * 0x100000001b3;
  }
  return value;
}

std::uint64_t mix(std::uint64_t value) noexcept {
  value = (value ^ (value >> 30U)) * 0xbf58476d1ce4e5b9;
  value = (value ^ (value >> 27U)) * 0x94d049bb133111eb;
  return value ^ (value >> 31U);
}

std::string key() { return std::string{reserved::shard_map}; }

// Empty: they are sorted, different, and names.
std::string names_fault(const std::vector<std::string>& names) {
  if (names.size() > max_shards) return "more than " + std::to_string(max_shards) + " shards";
  for (const std::string& name : names) {
    if (std::string fault = name_fault(name); !fault.empty()) return fault;
  }
  if (!std::ranges::is_sorted(names)) return "the names are not sorted";
  if (std::ranges::adjacent_find(names) != names.end()) return "a name is there twice";
  return {};
}

StoredMap from_json(const Json& json) {
  if (const int format = json.at("format").get<int>(); format != map_format) {
    throw Error("its format is " + std::to_string(format) +
                ", which only a newer version of Tenure knows: update this program");
  }
  StoredMap out;
  out.self = json.at("shard").get<std::string>();
  out.map.id = json.at("space").get<std::string>();
  out.map.version = json.at("version").get<std::uint64_t>();
  out.map.names = json.at("shards").get<std::vector<std::string>>();
  if (json.contains("next")) out.map.next = json["next"].get<std::vector<std::string>>();
  if (out.map.version == 0) throw Error("its version is 0");
  if (out.map.names.empty()) throw Error("it lists no shards");
  for (const auto* const names : {&out.map.names, &out.map.next}) {
    if (const std::string fault = names_fault(*names); !fault.empty()) throw Error(fault);
  }
  return out;
}

}  // namespace

std::string name_fault(std::string_view name) {
  constexpr std::string_view known =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
  if (name.empty()) return "the name of a shard is empty";
  if (name.size() > max_name) {
    return "the name of a shard has " + std::to_string(name.size()) + " bytes: use at most " +
           std::to_string(max_name);
  }
  if (name.find_first_not_of(known) != std::string_view::npos) {
    return "'" + Path::of(name).text() +
           "' is not the name of a shard: use letters, digits, '.', '_' and '-'";
  }
  return {};
}

std::vector<std::string> checked_names(std::vector<std::string> names) {
  if (names.empty()) throw Error("a map needs at least one shard: name those that are to be in it");
  std::ranges::sort(names);
  if (const std::string fault = names_fault(names); !fault.empty()) throw Error(fault);
  return names;
}

const std::string& home_of(std::string_view root, const std::vector<std::string>& names) noexcept {
  const std::uint64_t of_root = mix(hash(root));
  // Two equal scores: the first name, which is the same everywhere because they are sorted.
  return *std::ranges::max_element(
      names, {}, [of_root](const std::string& name) { return mix(of_root ^ mix(hash(name))); });
}

std::string_view root_of(const Path& path) {
  if (!path.is_root()) return *path.segments().begin();
  throw BadRequest(
      "'/' is everything, and lies in all shards of this space: no request can lock it. Lock a "
      "path, or the roots one after the other, in the same order everywhere");
}

bool ShardMap::has(std::string_view name) const noexcept {
  return std::ranges::binary_search(names, name);
}

bool ShardMap::moves(std::string_view root) const noexcept {
  return !stable() && home_of(root, names) != home_of(root, next);
}

std::string ShardMap::text(std::string_view self) const {
  Json json = Json::object();
  json["format"] = map_format;
  json["space"] = id;
  json["shard"] = self;
  json["version"] = version;
  json["shards"] = names;
  if (!stable()) json["next"] = next;
  return json.dump();
}

std::expected<StoredMap, std::string> parse_map(std::string_view text) {
  try {
    return from_json(Json::parse(text));
  } catch (const std::exception& error) {  // Of JSON, or of this file.
    return std::unexpected(std::string{error.what()});
  }
}

Guard StoredMap::guard() const {
  return map.version == 0 ? Guard::absent(key()) : Guard::unchanged(key(), changed);
}

StoredMap read_map(Store& store, std::string_view name) {
  Txn read;
  read.reads.push_back(Range::key(key()));
  const Outcome outcome = store.apply(read);
  if (outcome.reads.front().empty()) return {};
  const Entry& entry = outcome.reads.front().front();
  std::expected<StoredMap, std::string> parsed = parse_map(entry.value);
  if (!parsed.has_value()) {
    throw StoreError("the map of shards in shard '" + std::string{name} +
                     "' cannot be read: " + parsed.error());
  }
  if (parsed->self != name) {
    throw StoreError("the store of shard '" + std::string{name} + "' is that of shard '" +
                     parsed->self + "': correct the URL in the list of shards");
  }
  parsed->changed = entry.changed;
  return *std::move(parsed);
}

}  // namespace tenure::sharded
