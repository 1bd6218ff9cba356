// docs/guide.md: a value that many processes change.
#include <gtest/gtest.h>

#include <filesystem>
#include <optional>

#include "tenure/state.hpp"
#include "tests/kit/scratch.hpp"

namespace {

// The block has a relative path in it.
class DocsGuideState : public ::testing::Test {
 protected:
  DocsGuideState() { std::filesystem::current_path(directory_.path()); }
  ~DocsGuideState() override { std::filesystem::current_path(before_); }

 private:
  std::filesystem::path before_ = std::filesystem::current_path();
  tenure::kit::TemporaryDirectory directory_;
};

TEST_F(DocsGuideState, Changes) {
  // SNIPPET
  EXPECT_EQ(visits.get(), 2);
}

}  // namespace
