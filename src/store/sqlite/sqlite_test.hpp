// sqlite_test.hpp: for tests: a directory that goes with its object, and shorthands.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <stdlib.h>  // NOLINT: mkdtemp is POSIX's.

#include "store/conformance.hpp"
#include "store/sqlite/sqlite_store.hpp"
#include "tenure/store.hpp"

namespace tenure::sqlite {

using conformance::Children;
using conformance::txn;

class Directory {
 public:
  Directory() {
    std::string name = (std::filesystem::temp_directory_path() / "tenure-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) throw Error("no temporary directory");
    path_ = name;
  }
  Directory(const Directory&) = delete;
  Directory& operator=(const Directory&) = delete;
  ~Directory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  [[nodiscard]] std::filesystem::path operator/(const std::string& name) const {
    return path_ / name;
  }
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

  // Every file in it, with its bytes; a directory's are "/".
  [[nodiscard]] std::map<std::string, std::string> contents() const {
    std::map<std::string, std::string> found;
    for (const auto& entry : std::filesystem::recursive_directory_iterator{path_}) {
      const std::string name = entry.path().lexically_relative(path_).string();
      if (entry.is_regular_file()) {
        std::ifstream file{entry.path(), std::ios::binary};
        found[name].assign(std::istreambuf_iterator<char>{file}, {});
      } else {
        found[name] = "/";
      }
    }
    return found;
  }

 private:
  std::filesystem::path path_;
};

// A handle of its own, as another process would have.
inline SqliteOptions alone() {
  SqliteOptions options;
  options.alone = true;
  return options;
}

inline Revision put(Store& store, std::string key, std::string value = "",
                    Durability durability = Durability::relaxed) {
  Txn one = txn({}, {Write::put(std::move(key), std::move(value))});
  one.durability = durability;
  return store.apply(one).revision;
}

inline std::vector<Entry> read(Store& store, Range range) {
  return store.apply(txn({}, {}, {std::move(range)})).reads.at(0);
}

inline std::string value_of(Store& store, const std::string& key) {
  const auto found = read(store, Range::key(key));
  return found.empty() ? "none" : found[0].value;
}

// What opening says when it refuses; "opened" when it does not.
inline std::string refusal(const std::filesystem::path& path, const SqliteOptions& options = {}) {
  try {
    std::ignore = open_sqlite(path, options);
    return "opened";
  } catch (const StoreError& error) {
    return error.what();
  }
}

}  // namespace tenure::sqlite
