// shard_list.hpp: the file that a "sharded:" URL names: where each shard is, for one process.
//
//   # A name, blanks, and the URL of a store, to the end of the line.
//   east   etcd://a1,a2,a3/locks
//   west   postgres://locks:password@db1/locks
//
// Blank lines and lines that begin with '#' do not count. The file may contain passwords, so no
// message quotes a line; messages have its number.
//
// Thread safety: values.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tenure/store.hpp"

namespace tenure::sharded {

inline constexpr std::size_t max_list_bytes = 1'000'000;

struct ShardAddress {
  std::string name;
  std::string url;
  friend bool operator==(const ShardAddress&, const ShardAddress&) = default;
};

// Throws Error that says which line is wrong, and why.
[[nodiscard]] std::vector<ShardAddress> parse_list(std::string_view text);

// How one shard's store is opened.
struct ShardSource {
  std::string name;
  std::string url;    // Empty: of a test.
  std::string shown;  // The URL without passwords.
  std::function<std::shared_ptr<Store>()> open;
};

// False: it is a file that nobody has made yet. A call that only looks must not make it.
[[nodiscard]] bool exists(const ShardSource& source);

[[nodiscard]] bool is_sharded(std::string_view url) noexcept;
// Of a "sharded:FILE" URL. Throws Error for a file that cannot be read, or is not a list.
[[nodiscard]] std::vector<ShardSource> read_sources(std::string_view url);

}  // namespace tenure::sharded
