// any_space.hpp: the tests of lock semantics run in every kind of space alike.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <vector>

#include "tenure/space.hpp"
#ifdef TENURE_TEST_POSTGRES
#include <memory>

#include "store/postgres/server_test.hpp"
#elifdef TENURE_TEST_ETCD
#include "store/etcd/etcd_test.hpp"
#endif

namespace tenure {

// A directory that goes with the object.
class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    std::string name = (std::filesystem::temp_directory_path() / "tenure-test-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) std::abort();
    path_ = name;
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  ~TemporaryDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }

 private:
  std::filesystem::path path_;
};

// Parametrised by what stands before the colon of a URL.
class AnySpace : public ::testing::TestWithParam<std::string_view> {
 public:
  // A new space each time.
  [[nodiscard]] std::string new_url() {
    const std::string kind{GetParam()};
#ifdef TENURE_TEST_POSTGRES
    return schemas_.emplace_back(std::make_unique<postgres::TestSchema>())->url();
#elifdef TENURE_TEST_ETCD
    return etcd::the_server().url(etcd::new_prefix());
#endif
    if (kind != "sqlite") return kind + ":";
    return "sqlite:" + (directory_.path() / (std::to_string(++files_) + ".db")).string();
  }
  [[nodiscard]] Space open_new() { return open(new_url()); }
  [[nodiscard]] bool is_local() const { return GetParam() == "local"; }
  // So many rounds in memory; fewer where each is a file, a schema or a prefix.
  [[nodiscard]] int rounds(int many) const {
    return is_local() || GetParam() == "memory" ? many : many / 20;
  }

 private:
  TemporaryDirectory directory_;
  int files_ = 0;
#ifdef TENURE_TEST_POSTGRES
  std::vector<std::unique_ptr<postgres::TestSchema>> schemas_;
#endif
};

// Those that need a server are tried by a program of their own, which starts it once.
#ifdef TENURE_TEST_POSTGRES
inline constexpr std::string_view all_spaces[] = {"postgres"};  // NOLINT(*-c-arrays)
#elifdef TENURE_TEST_ETCD
inline constexpr std::string_view all_spaces[] = {"etcd"};  // NOLINT(*-c-arrays)
#else
inline constexpr std::string_view all_spaces[] = {"local", "memory",
                                                  "sqlite"};  // NOLINT(*-c-arrays)
#endif
#define TENURE_IN_ALL_SPACES(suite)                                    \
  INSTANTIATE_TEST_SUITE_P(In, suite, ::testing::ValuesIn(all_spaces), \
                           [](const auto& kind) { return std::string{kind.param}; })

}  // namespace tenure
