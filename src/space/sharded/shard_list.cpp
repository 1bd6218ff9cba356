#include "space/sharded/shard_list.hpp"

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>
#include <utility>

#include "space/sharded/shard_map.hpp"
#include "tenure/error.hpp"

namespace tenure::sharded {
namespace {

constexpr std::string_view scheme = "sharded:";
constexpr std::string_view blanks = " \t\r";

std::string_view trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(blanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(blanks) - first + 1);
}

ShardAddress parse_line(std::string_view line) {
  const std::size_t blank = line.find_first_of(blanks);
  const std::string_view name = line.substr(0, blank);
  // The text may be a URL, with a password, whose name was forgotten.
  if (!name_fault(name).empty()) {
    throw Error("it does not begin with the name of a shard: letters, digits, '.', '_' and '-'");
  }
  const std::string_view url =
      blank == std::string_view::npos ? std::string_view{} : trimmed(line.substr(blank));
  if (url.empty()) throw Error("there is no URL behind the name");
  if (!is_store(url)) {
    throw Error("'" + shown_url(url) +
                "' is not the URL of a store: use 'sqlite:PATH', 'postgres://HOST/DATABASE' or "
                "'etcd://HOST:PORT,…/PREFIX'");
  }
  return {.name = std::string{name}, .url = std::string{url}};
}

std::string read_file(const std::string& path) {
  const std::ifstream file{path, std::ios::binary};
  std::ostringstream text;
  if (file) text << file.rdbuf();
  if (!file || !text) {
    throw Error("the list of shards '" + path +
                "' cannot be read: " + std::generic_category().message(errno));
  }
  return std::move(text).str();
}

}  // namespace

std::vector<ShardAddress> parse_list(std::string_view text) {
  if (text.size() > max_list_bytes) {
    throw Error("it has " + std::to_string(text.size()) + " bytes: use at most " +
                std::to_string(max_list_bytes));
  }
  std::vector<ShardAddress> out;
  for (std::size_t number = 1; !text.empty(); ++number) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    if (trimmed(line).empty() || trimmed(line).front() == '#') continue;
    try {
      out.push_back(parse_line(trimmed(line)));
      if (out.size() > max_shards) {
        throw Error("there are more than " + std::to_string(max_shards) + " shards");
      }
      if (std::ranges::count(out, out.back().name, &ShardAddress::name) > 1) {
        throw Error("the name '" + out.back().name + "' was used before");
      }
    } catch (const Error& error) {
      throw Error("line " + std::to_string(number) + ": " + error.what());
    }
  }
  if (out.empty()) throw Error("it lists no shards: write a name and a URL in each line");
  return out;
}

bool exists(const ShardSource& source) {
  constexpr std::string_view file = "sqlite:";
  std::error_code unknown;
  return !source.url.starts_with(file) ||
         std::filesystem::exists(source.url.substr(file.size()), unknown) || unknown;
}

bool is_sharded(std::string_view url) noexcept { return url.starts_with(scheme); }

std::vector<ShardSource> read_sources(std::string_view url) {
  if (!is_sharded(url)) {
    throw Error("'" + shown_url(url) + "' is not the URL of a sharded space: use 'sharded:FILE'");
  }
  const std::string path{url.substr(scheme.size())};
  if (path.empty()) {
    throw Error("'sharded:' needs a file that lists the shards: use 'sharded:FILE'");
  }
  std::vector<ShardSource> out;
  try {
    for (const ShardAddress& one : parse_list(read_file(path))) {
      out.push_back({.name = one.name,
                     .url = one.url,
                     .shown = shown_url(one.url),
                     .open = [where = one.url] { return store(where); }});
    }
  } catch (const Error& error) {
    throw Error("'" + std::string{url} + "': " + error.what());
  }
  return out;
}

}  // namespace tenure::sharded
