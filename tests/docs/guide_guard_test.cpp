// docs/guide.md: a write that is made only while the lock is held.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "tenure/tenure.hpp"
#include "tests/kit/scratch.hpp"

namespace {

const tenure::Name counter{"counter"};

// The block has a relative path in it.
class DocsGuideGuard : public ::testing::Test {
 protected:
  DocsGuideGuard() { std::filesystem::current_path(directory_.path()); }
  ~DocsGuideGuard() override { std::filesystem::current_path(before_); }

 private:
  std::filesystem::path before_ = std::filesystem::current_path();
  tenure::kit::TemporaryDirectory directory_;
};

TEST_F(DocsGuideGuard, RefusesALateWriter) {
  const auto give_up = [] { ADD_FAILURE(); };
  // SNIPPET
  txn.reads = {tenure::Range::key("counter")};
  EXPECT_EQ(store->apply(txn).reads.at(0).at(0).value, "42");
  hold.release();
  EXPECT_FALSE(store->apply(txn).committed);
}

}  // namespace
