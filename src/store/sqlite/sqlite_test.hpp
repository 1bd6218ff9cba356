// sqlite_test.hpp: for tests: shorthands.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "store/conformance.hpp"
#include "store/sqlite/sqlite_store.hpp"
#include "tenure/store.hpp"
#include "tests/kit/process.hpp"
#include "tests/kit/scratch.hpp"

namespace tenure::sqlite {

using conformance::txn;
using kit::Children;

class Directory : public kit::TemporaryDirectory {
 public:
  // Every file in it, with its bytes; those of a directory are "/".
  [[nodiscard]] std::map<std::string, std::string> contents() const {
    std::map<std::string, std::string> found;
    for (const auto& entry : std::filesystem::recursive_directory_iterator{path()}) {
      const std::string name = entry.path().lexically_relative(path()).string();
      if (entry.is_regular_file()) {
        std::ifstream file{entry.path(), std::ios::binary};
        found[name].assign(std::istreambuf_iterator<char>{file}, {});
      } else {
        found[name] = "/";
      }
    }
    return found;
  }
};

// A handle of its own, as another process would have. Its watches are checked only when rung: the
// check once per second would hide a lost wake-up.
inline SqliteOptions alone() {
  SqliteOptions options;
  options.alone = true;
  options.check_every = std::chrono::hours{24};
  return options;
}

inline Revision put(Store& store, std::string key, std::string value = "",
                    Durability durability = Durability::relaxed) {
  Txn one = txn({}, {Write::put(std::move(key), std::move(value))});
  one.durability = durability;
  return store.apply(one).revision;
}

// In its first round the service thread arms and checks all watches.
inline void await_first_round(Store& store) {
  conformance::Bell bell;
  WatchFor now;
  now.until = store.now();
  const auto watch = store.watch(now, bell.notice());
  bell.wait();
}

inline std::vector<Entry> read(Store& store, Range range) {
  return store.apply(txn({}, {}, {std::move(range)})).reads.at(0);
}

inline std::string value_of(Store& store, const std::string& key) {
  const auto found = read(store, Range::key(key));
  return found.empty() ? "none" : found[0].value;
}

// The error of opening; "opened" if there was none.
inline std::string refusal(const std::filesystem::path& path, const SqliteOptions& options = {}) {
  try {
    std::ignore = open_sqlite(path, options);
    return "opened";
  } catch (const StoreError& error) {
    return error.what();
  }
}

}  // namespace tenure::sqlite
