// any_space_test.hpp: the tests of lock semantics run in every kind of space alike.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "tenure/space.hpp"
#include "tests/kit/scratch.hpp"
#ifdef TENURE_TEST_POSTGRES
#include <memory>

#include "tests/kit/postgres.hpp"
#elifdef TENURE_TEST_ETCD
#include "tests/kit/etcd.hpp"
#endif

namespace tenure {

// Parametrised by what stands before the colon of a URL.
class AnySpace : public ::testing::TestWithParam<std::string_view> {
 public:
  // A new space each time.
  [[nodiscard]] std::string new_url() {
    const std::string kind{GetParam()};
#ifdef TENURE_TEST_POSTGRES
    return schemas_.emplace_back(std::make_unique<kit::Schema>())->url();
#elifdef TENURE_TEST_ETCD
    return kit::Etcd::instance().url(kit::new_prefix());
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
  kit::TemporaryDirectory directory_;
  int files_ = 0;
#ifdef TENURE_TEST_POSTGRES
  std::vector<std::unique_ptr<kit::Schema>> schemas_;
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
